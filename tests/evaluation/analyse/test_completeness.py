"""Omitted sentences in outputs, from text files to results, tables and warnings."""

import csv
import random

import numpy as np
import pytest

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.completeness.evidence import evidence
from posnmt.evaluation.analyse.completeness.words import split
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.report.completeness import omitted_sentences
from tests.support.completeness_case import lines, paragraphs

SOURCES, TARGETS = paragraphs(60, sizes=(1, 2, 3, 4))
LOST = {number: random.Random(number).randrange(len(each)) for number, each in enumerate(SOURCES)
        if number % 4 == 0 and len(each) > 1}  # fmt: skip
SHORT = [[each for place, each in enumerate(line) if place != LOST.get(number)] for number, line in enumerate(TARGETS)]
SENTENCES = sum(map(len, SOURCES))


@pytest.fixture
def results(run):
    return run({"whole": lines(TARGETS), "short": lines(SHORT)}, lines(SOURCES), lines(TARGETS),
               completeness=True, bin_edges=[10, 20], resampling=Resampling(40))  # fmt: skip


def test_the_omitted_sentences_are_those_that_were_deleted(results):
    whole, short = results["completeness"]["systems"]
    assert results["completeness"]["source_sentences"] == SENTENCES
    assert (whole["omitted"], whole["worst"]) == (0, [])
    assert short["omitted"] == len(LOST)
    worst = {each["line"] - 1: each["sentences"] for each in short["worst"]}
    assert worst.items() <= {number: [place + 1] for number, place in LOST.items()}.items()
    assert len(worst) == 10


def test_the_line_that_lacks_most_sentences_is_the_worst(run):
    sources, targets = paragraphs(40, sizes=(4,))
    lost = {4: {1}, 9: {0, 2}, 20: {3}}
    output = [[each for place, each in enumerate(line) if place not in lost.get(number, ())]
              for number, line in enumerate(targets)]  # fmt: skip
    [system] = run({"ours": lines(output)}, lines(sources), lines(targets), completeness=True)["completeness"][
        "systems"
    ]
    assert system["worst"][0] == {"line": 10, "sentences": [1, 3]}
    assert {each["line"] for each in system["worst"][1:]} == {5, 21}


def test_measures_by_bin_are_shares_of_their_sentences(results):
    _, short = results["systems"]
    for scores, first, last in [
        (short["overall"], 0, 999),
        *zip(short["bins"], (0, 10, 20), (9, 19, 999), strict=True),
    ]:
        rows = [number for number, line in enumerate(lines(SOURCES)) if first <= len(line.split()) <= last]
        sizes = sum(len(SOURCES[row]) for row in rows)
        assert scores["omitted_sentences"] == pytest.approx(100 * sum(row in LOST for row in rows) / sizes)
        assert scores["sentence_ends"] == pytest.approx(sum(len(SHORT[row]) for row in rows) / sizes)
    kept = 1 - sum(len(SOURCES[number][place].split()) for number, place in LOST.items()) / len(
        " ".join(lines(SOURCES)).split()
    )
    shares = [each["overall"]["aligned_source_words"] for each in results["systems"]]
    assert shares[1] / shares[0] == pytest.approx(kept, abs=0.01)
    assert shares[0] > 90


def test_places_are_those_of_lines_with_several_sentences(results):
    short = results["completeness"]["systems"][1]
    by_place = {each["place"]: (each["sentences"], each["omitted"]) for each in short["places"]}
    several = [number for number, line in enumerate(SOURCES) if len(line) > 1]
    for place in range(4):
        held = [number for number in several if len(SOURCES[number]) > place]
        assert by_place[str(place + 1)] == (len(held), sum(LOST.get(number) == place for number in held))
    last = sum(LOST.get(number) == len(SOURCES[number]) - 1 for number in several)
    assert by_place["last"] == (len(several), last)


def test_systems_are_compared_on_the_same_sentences(results):
    [pair] = results["completeness"]["mcnemar"]
    assert (pair["omitted_by_system_only"], pair["omitted_by_other_only"]) == (0, len(LOST))
    assert pair["p"] == pytest.approx(2 * 0.5 ** len(LOST))
    tested = results["significance"]["metrics"]
    assert tested["omitted_sentences"]["tests"]["approximate_randomisation"]["marks"][0][1] == ">"
    assert "sentence_ends" not in tested


def test_omissions_are_compared_with_those_of_the_baseline(run):
    outputs = dict.fromkeys(("one", "two", "three"), lines(TARGETS[:40]))
    results = run(outputs, lines(SOURCES[:40]), lines(TARGETS[:40]), completeness=True, resampling=Resampling(40))
    for baseline, others in ((None, ("two", "three")), ("two", ("one", "three"))):
        results["settings"]["baseline"] = baseline
        pairs = [set(sentence.split(":")[0].split(" and ")) for sentence in omitted_sentences(results).legend]
        assert pairs == [{baseline or "one", other} for other in others]


def test_intervals_are_the_wider_ones(results):
    whole, short = results["completeness"]["systems"]
    assert whole["interval"][0] == 0 < whole["interval"][1]  # a bootstrap of nothing would end at 0
    assert short["interval"][0] < short["rate"] < short["interval"][1]
    assert short["at_most"] < short["interval"][1]


def test_only_outputs_that_omit_more_than_one_in_a_hundred_are_named(results):
    named = [sentence for sentence in results["warnings"] if "counterpart" in sentence]
    assert len(named) == 1
    assert f"short: {len(LOST)} of {SENTENCES}" in named[0]


def test_the_tables_have_the_measures(results, tmp_path):
    with (tmp_path / "out/scores.csv").open(encoding="utf-8", newline="") as table:
        row = [each for each in csv.DictReader(table) if each["bin"] == "all"][1]
    for measure in ("aligned_source_words", "omitted_sentences", "sentence_ends"):
        assert float(row[measure]) == results["systems"][1]["overall"][measure]
        assert float(row[f"{measure}_low"]) <= float(row[measure]) <= float(row[f"{measure}_high"])
        assert (tmp_path / "out/tables" / f"{measure}-by-length.tex".replace("_", "-")).exists()


def test_the_report_shows_what_is_missing_in_the_worst_lines(results, tmp_path):
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    section = page.split('<h2 id="completeness">')[1].split("<h2")[0]
    assert section.count("<del>") == sum(
        len(each["sentences"]) for each in results["completeness"]["systems"][1]["worst"]
    )
    for number, place in list(LOST.items()):
        shown = f"Line {number + 1}:" in section
        assert (f"<del>{SOURCES[number][place]}" in section) == shown
    with (tmp_path / "out/completeness.csv").open(encoding="utf-8", newline="") as table:
        [row] = [each for each in csv.DictReader(table) if (each["system"], each["place"]) == ("short", "all")]
    assert (int(row["omitted"]), int(row["sentences"])) == (len(LOST), SENTENCES)
    assert f"{100 * len(LOST) / SENTENCES:.2f}" in (tmp_path / "out/tables/omitted-sentences.tex").read_text()


def test_a_report_without_examples_has_no_sentences(run, tmp_path):
    run({"short": lines(SHORT)}, lines(SOURCES), lines(TARGETS), completeness=True, examples=0)
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert '<h2 id="completeness">' in page
    assert not any(sentence in page for line in SOURCES for sentence in line)


def test_labels_correct_the_rate_of_their_output(run, files):
    labels = files("labels", ["line\tsentence\tomitted", *(f"{n + 1}\t{p + 1}\t0" for n, p in LOST.items()), "2\t1\t0"])
    results = run({"short": lines(SHORT)}, lines(SOURCES), lines(TARGETS), completeness=True, judged={"short": labels})
    [short] = results["completeness"]["systems"]
    assert short["hand"]["rate"] == pytest.approx(len(LOST) / SENTENCES - len(LOST) / (len(LOST) + 1))
    assert [record["system"] for record in results["inputs"] if record["role"] == "labels"] == ["short"]


def test_more_text_gives_the_lexicon_more_words(run, files):
    more = paragraphs(200, seed=9)
    few = {"source": lines(SOURCES[:6]), "reference": ["Qqq."] * 6, "completeness": True}
    alone = run({"ours": lines(TARGETS[:6])}, **few)
    parallel = tuple(files(f"more.{side}", lines(each)) for side, each in enumerate(more))
    with_more = run({"ours": lines(TARGETS[:6])}, **few, parallel=parallel)
    assert alone["completeness"]["aligned_lines"] == 6
    assert with_more["completeness"]["aligned_lines"] == 206
    shares = [each["systems"][0]["overall"]["aligned_source_words"] for each in (alone, with_more)]
    assert shares[0] < 20 < 80 < shares[1]


@pytest.mark.parametrize("option", [{"judged": {"ours": "labels"}}, {"parallel": ("a", "b")}])
def test_options_of_completeness_need_it(run, option):
    with pytest.raises(UserError, match="completeness"):
        run(**option)


def test_sentences_end_by_the_rules_of_the_languages_that_are_named(run):
    source, target = ["Am 3. Mai war es warm. Gut."], ["It was warm on 3 May. Good."]
    german, unknown = (
        run({"ours": target}, source, target, completeness=True, source_language=code, target_language="en")[
            "completeness"
        ]
        for code in ("de", None)
    )
    assert german["languages"] == {"source": "de", "target": "en"}
    assert unknown["languages"]["source"] != "de"
    assert (german["source_sentences"], unknown["source_sentences"]) == (2, 3)


def test_the_words_that_count_are_those_with_content():
    source, translation = split("the dog", "en"), split("der Kater", "de")
    links = np.array([[1.0, 0.0], [0.0, 0.0]])  # of `the` alone
    for content, aligned, linked in (([False, True], 0, 0), ([True, True], 1 / 2, 1), ([False, False], 1 / 2, 0)):
        of_line = evidence([source], [translation], [np.array(content)], lambda number: links, expansion=1.0)
        assert (of_line.aligned.tolist(), of_line.linked.tolist()) == ([aligned], [linked])


def test_labels_of_no_output(run):
    with pytest.raises(UserError, match="no output is called 'other'"):
        run(completeness=True, judged={"other": "labels"})


def test_without_completeness_nothing_is_measured(run):
    results = run()
    assert results["completeness"] is None
    assert "omitted_sentences" not in results["systems"][0]["overall"]


def test_empty_lines_and_outputs_have_their_place(run):
    results = run({"ours": ["", *lines(TARGETS[1:12]), ""]}, [*lines(SOURCES[:12]), ""], [*lines(TARGETS[:12]), ""],
                  completeness=True)  # fmt: skip
    [ours] = results["completeness"]["systems"]
    assert ours["omitted"] == len(SOURCES[0])
    assert ours["worst"] == [{"line": 1, "sentences": [number + 1 for number in range(len(SOURCES[0]))]}]
    assert ours["sentences"] == sum(map(len, SOURCES[:12]))
