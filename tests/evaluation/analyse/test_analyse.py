"""`analyse` from text files to results and the table of scores; test_report*.py have the page and the figures."""

import csv
import hashlib
import json
import multiprocessing
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from click.testing import CliRunner
from sentencepiece import SentencePieceTrainer

from posnmt.base import progress
from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.cli.main import main
from posnmt.data.length_unit import length_unit
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.inputs import parse_outputs
from posnmt.evaluation.analyse.length import MOST_CLASSES, length_distribution
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings
from posnmt.metrics.registry import METRICS
from tests.support.analyse_case import HTML_NAME, OUTPUT, REFERENCE, SOURCE


def rows_between(first, last):
    return [row for row, line in enumerate(SOURCE) if first <= len(line.split()) <= last]


def test_scores_overall_and_by_bin_are_sacrebleu_s(run):
    results = run(bin_edges=[3, 6, 10], metrics=METRICS)
    system = results["systems"][0]
    cases = [(system["overall"], 0, 99), *zip(system["bins"], [0, 3, 6, 10], [2, 5, 9, 99], strict=True)]
    for scores, first, last in cases:
        rows = rows_between(first, last)
        outputs, references = [OUTPUT[row] for row in rows], [[REFERENCE[row] for row in rows]]
        assert scores["n"] == len(rows) > 0
        assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(outputs, references).score)
        assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(outputs, references).score)
        assert scores["ter"] == pytest.approx(sacrebleu.corpus_ter(outputs, references).score)
    assert sum(each["n"] for each in results["bins"]) == len(SOURCE)


def test_length_difference_and_ratio(run):
    system = run(bin_edges=[3, 6, 10])["systems"][0]
    assert system["bins"][-1]["length_difference"] == -6
    assert system["bins"][-1]["length_ratio"] == 0.5
    assert system["bins"][0]["length_difference"] == pytest.approx(-1 / 2)  # "yes" became an empty line
    assert system["empty_lines"] == 1


def test_json_and_csv_agree(run, tmp_path):
    returned = run({"ours": OUTPUT, HTML_NAME: REFERENCE}, bin_width=3, max_trained_length=7)
    results = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    assert results == returned
    with (tmp_path / "out/scores.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 2 * (len(results["bins"]) + 1)
    rows = iter(table)
    for system in results["systems"]:
        for label, scores in zip(
            ["all", *(each["label"] for each in results["bins"])], [system["overall"], *system["bins"]], strict=True
        ):
            row = next(rows)
            assert (row["system"], row["bin"]) == (system["name"], label)
            for name, value in scores.items():
                assert (float(row[name]) if row[name] else None) == value


def test_intervals_hold_the_scores_and_are_in_the_table(run, tmp_path):
    results = run({"ours": OUTPUT, "theirs": REFERENCE}, bin_edges=[3, 8, 10, 50], metrics=METRICS)
    with (tmp_path / "out/scores.csv").open(encoding="utf-8", newline="") as file:
        table = iter(list(csv.DictReader(file)))
    for system in results["systems"]:
        intervals = system["intervals"]
        cases = [(system["overall"], intervals["overall"]), *zip(system["bins"], intervals["bins"], strict=True)]
        for scores, ends in cases:
            row = next(table)
            assert set(ends) == set(scores) - {"n"}
            for name, interval in ends.items():
                written = [row[f"{name}_low"], row[f"{name}_high"]]
                if scores[name] is None:
                    assert interval is None
                    assert written == ["", ""]
                else:
                    assert interval[0] <= scores[name] + 1e-9
                    assert scores[name] <= interval[1] + 1e-9
                    assert [float(end) for end in written] == interval
    lower, upper = results["systems"][0]["intervals"]["overall"]["chrf"]
    assert lower < upper


def test_significance_and_what_was_used_are_recorded(run):
    options = {"resampling": Resampling(samples=300, seed=4, correction="holm"), "metrics": ["bleu", "ter"]}
    results = run({"ours": OUTPUT, "theirs": REFERENCE}, **options)
    settings = results["settings"]
    assert [settings[key] for key in ("samples", "seed", "significance", "correction")] == [300, 4, True, "holm"]
    assert settings["interval"] == 0.95
    assert set(results["significance"]["metrics"]) == {"bleu", "ter"}
    tests = results["significance"]["metrics"]["bleu"]["tests"]
    assert set(tests) == {"paired_bootstrap", "sign_test", "approximate_randomisation"}
    assert tests["sign_test"]["sentences"] == [  # five outputs differ, each for the worse
        [[0, 0], [0, 5]],
        [[5, 0], [0, 0]],
    ]
    assert tests["sign_test"]["p"][0][1] == 2 / 2**5
    assert results["ter_search"] == {"band": 25, "shift_size": 10, "shift_distance": 50, "shift_candidates": 1000}
    assert run(**options)["significance"] is None, "one system has nobody to differ from"


def test_without_samples_there_are_neither_intervals_nor_tests(run, tmp_path):
    results = run({"ours": OUTPUT, "theirs": REFERENCE}, resampling=Resampling(samples=0))
    assert results["significance"] is None
    assert [system["intervals"] for system in results["systems"]] == [None, None]
    assert "_low" not in (tmp_path / "out/scores.csv").read_text(encoding="utf-8")
    without = run({"ours": OUTPUT, "theirs": REFERENCE}, resampling=Resampling(samples=50, significance=False))
    assert without["significance"] is None
    assert without["systems"][0]["intervals"]["overall"]["bleu"]


def test_the_seed_is_that_of_the_samples(run):
    one, same, other = (
        run(resampling=Resampling(samples=100, seed=seed))["systems"][0]["intervals"] for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_processes_do_not_change_results(run, monkeypatch):
    monkeypatch.setattr("posnmt.evaluation.analyse.extract.SLICE", 3)
    one, two = (run(metrics=METRICS, processes=processes) for processes in (1, 2))
    assert one == two


def test_a_process_that_is_killed_is_said(run, monkeypatch):
    monkeypatch.setattr("posnmt.evaluation.analyse.extract.SLICE", 3)

    def kill():
        while len(children := multiprocessing.active_children()) < 2:  # one that starts is not yet watched
            time.sleep(0.01)
        children[0].kill()

    threading.Thread(target=kill).start()
    with pytest.raises(UserError, match=r"a process of the analysis ended unexpectedly.*--processes 1"):
        run(processes=2)


def test_measuring_shows_what_is_done_and_the_time_left(run, monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr("posnmt.evaluation.analyse.extract.SLICE", 3)
    with Display():
        run(processes=1)
    shown = re.findall(r"^measuring +(\d+)%  (\d+) of (\d+) sentences  .+ left$", capsys.readouterr().err, flags=re.M)
    total = len(SOURCE)
    assert shown == [(f"{done / total:.0%}"[:-1], str(done), str(total)) for done in range(3, total, 3)]


def test_seeds_of_a_system(run):
    results = run({"a:1": OUTPUT, "a:2": REFERENCE, "b": OUTPUT})
    (system,) = results["seeds"]["systems"]
    scores = [each["overall"]["bleu"] for each in results["systems"][:2]]
    assert system["outputs"] == ["a:1", "a:2"]
    assert system["overall"]["bleu"]["mean"] == pytest.approx(sum(scores) / 2)
    assert results["seeds"]["welch"]["bleu"]["marks"] == [[""]]
    assert run()["seeds"] is None


def test_length_distributions(run):
    results = run({"ours": OUTPUT, "theirs": REFERENCE}, bin_edges=[3, 8, 10, 50])
    short, middle, none, last, _ = results["length_distributions"]
    assert none is None
    assert short == {"first": [0, 1, 2], "width": 1, "reference": [0, 1, 1], "systems": [[1, 0, 1], [0, 1, 1]]}
    assert sum(middle["reference"]) == sum(middle["systems"][0]) == 4
    assert last["first"] == [6, 7, 8, 9, 10, 11, 12]
    assert last["systems"] == [[1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1]]


def test_a_wide_length_distribution_has_few_classes():
    output, reference = np.array([3, 999, 100_007]), np.array([5, 6, 7])
    found = length_distribution([output], reference, np.arange(3))
    assert len(found["first"]) <= MOST_CLASSES + 1
    for lengths, counts in ((output, found["systems"][0]), (reference, found["reference"])):
        ends = [*found["first"], found["first"][-1] + found["width"]]
        assert counts == np.histogram(lengths, ends)[0].tolist()


def test_positions_in_results(run):
    positions = run({"ours": OUTPUT, "theirs": REFERENCE})["positions"]
    assert positions["tokenizer"] == "13a"
    assert [each["name"] for each in positions["systems"]] == ["ours", "theirs"]
    assert positions["systems"][1]["relative"]["recall"][5] == pytest.approx(100)
    assert len(positions["places"]["absolute"]) == len(positions["systems"][0]["absolute"]["precision"])


def test_ter_of_lines_too_far_from_the_reference_is_told(run):
    long = " ".join(f"w{number}" for number in range(60))
    results = run({"cut": [long[:80]]}, source=[long], reference=[long], metrics=["ter"])
    assert results["warnings"][0] == (
        "output cut: 1 of 1 lines are more than 25 words longer or shorter than the reference; sacreBLEU searches "
        "TER's edits too narrowly for them, and may find too many."
    )


def test_the_command_s_options(files, tmp_path):
    texts = {"s": SOURCE, "r": REFERENCE, "one": OUTPUT, "two": REFERENCE, "swapped": OUTPUT}
    paths = {name: str(files(name, lines)) for name, lines in texts.items()}
    command = ["analyse", "--source", paths["s"], "--reference", paths["r"], "--out", str(tmp_path / "out")]
    options = ["--output", f"a:1={paths['one']}", "--output", f"a:2={paths['two']}", "--metrics", "multi-bleu"]
    options += ["--swapped", f"a:1:0.1={paths['swapped']}", "--samples", "60", "--seed", "5", "--correction", "holm"]
    done = CliRunner().invoke(main, [*command, *options])
    assert done.exit_code == 0, done.output
    results = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    settings = results["settings"]
    assert [settings[key] for key in ("samples", "seed", "significance", "correction")] == [60, 5, True, "holm"]
    assert results["swap"][0]["shares"] == [0, 0.1]
    assert results["seeds"]["systems"][0]["name"] == "a"
    assert results["signatures"]["multi-bleu"].endswith(f"version:posnmt-{version('posnmt')}")
    assert CliRunner().invoke(main, [*command, *options, "--no-significance"]).exit_code == 0
    results = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    assert results["significance"] is None
    refused = CliRunner().invoke(main, [*command, *options, "--bin-edges", ""])
    assert "bin edges are whole numbers with commas; got ''" in refused.output, "an empty variable of a shell"
    refused = CliRunner().invoke(main, [*command, *options, "--swapped", "b:0.1=x"])
    assert refused.exit_code == 2
    assert "no output is called 'b'" in refused.output


def test_references_all_empty(run):
    results = run({"ours": ["a", "b"], "theirs": ["", ""]}, source=["x", "y"], reference=["", ""], metrics=METRICS)
    assert results["systems"][0]["overall"]["length_ratio"] is None
    assert results["systems"][0]["intervals"]["overall"]["length_ratio"] is None


def test_an_empty_bin_is_kept_with_null_scores(run):
    results = run(bin_edges=[3, 8, 10, 50], max_trained_length=9)
    system = results["systems"][0]
    assert [each["n"] for each in results["bins"]] == [2, 4, 0, 1, 0]
    assert set(system["bins"][2].values()) == {0, None}
    assert [each["training"] for each in results["bins"]] == ["seen", "seen", "seen", "unseen", "unseen"]
    shortest, longest = ([each[end] for each in results["bins"]] for end in ("shortest", "longest"))
    assert shortest[2:] == longest[2:] == [None, shortest[3], None]
    open_bin = run(bin_edges=[3], min_trained_length=shortest[0], max_trained_length=longest[3])["bins"]
    assert [each["training"] for each in open_bin] == ["seen", "seen"], "by the sentences, not by the ends of the bin"


def test_trained_on_counts_lengths(run, files):
    results = run(trained_on=files("train", ["a b c d e", "a b", "", "a b c"]), bin_edges=[2, 6])
    assert results["training"] == {"shortest": 2, "longest": 5}
    assert [each["training"] for each in results["bins"]] == ["unseen", "seen", "unseen"]
    assert next(each for each in results["inputs"] if each["role"] == "trained on")["lines"] == 4


def test_inputs_are_recorded(run, tmp_path):
    results = run()
    assert [each["role"] for each in results["inputs"]] == ["source", "reference", "output"]
    for each in results["inputs"]:
        content = Path(each["path"]).read_bytes()
        assert each["sha256"] == hashlib.sha256(content).hexdigest()
        assert each["lines"] == len(SOURCE)
    assert results["signatures"]["bleu"].endswith(f"version:{sacrebleu.__version__}")
    assert results["versions"]["sacrebleu"] == sacrebleu.__version__


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_read_once_and_recorded_with_its_digest(files, tmp_path):
    texts = {"s": SOURCE, "r": REFERENCE, "o": OUTPUT, "t": SOURCE, "c": range(len(SOURCE))}
    pipes = {name: tmp_path / f"{name}.pipe" for name in texts}
    contents = {name: files(name, lines).read_bytes() for name, lines in texts.items()}
    for pipe in pipes.values():
        os.mkfifo(pipe)
    with ThreadPoolExecutor(len(pipes)) as pool:
        written = [pool.submit(pipe.write_bytes, contents[name]) for name, pipe in pipes.items()]
        settings = Settings(metrics=["bleu"], trained_on=pipes["t"], resampling=Resampling(0))
        scores = {"comet": {"ours": pipes["c"]}}
        results = analyse(pipes["s"], pipes["r"], {"ours": pipes["o"]}, settings, scores=scores).results
        for each in written:
            each.result(timeout=20)
    assert {Path(each["path"]).stem: each["sha256"] for each in results["inputs"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    }


def test_one_sentence(run):
    results = run({"ours": ["the cat sat"]}, source=["die Katze saß"], reference=["the cat sat down"])
    assert results["systems"][0]["overall"]["n"] == 1
    expected = sacrebleu.corpus_bleu(["the cat sat"], [["the cat sat down"]]).score
    assert results["systems"][0]["bins"][0]["bleu"] == pytest.approx(expected)


def test_identical_systems_score_the_same_and_are_told(run):
    results = run({"one": OUTPUT, "two": OUTPUT})
    first, second = results["systems"]
    assert first["overall"] == second["overall"]
    assert first["bins"] == second["bins"]
    assert "output two: the same text as output one." in results["warnings"]


def test_an_output_that_is_the_reference(run):
    results = run({"oracle": REFERENCE})
    assert results["systems"][0]["overall"]["bleu"] == pytest.approx(100)
    assert results["warnings"] == ["output oracle: the same text as reference."]


def test_empty_and_crlf_lines_are_kept_and_told(run):
    results = run({"ours": [f"{line}\r" for line in OUTPUT]})
    assert results["warnings"] == [
        "output ours: 1 of 7 lines are empty; they are kept and count.",
        "output ours: 7 of 7 lines ended in CRLF; the CR was removed.",
    ]
    assert results["systems"][0]["overall"] == run()["systems"][0]["overall"]


def test_a_byte_order_mark_is_told(run):
    results = run({"ours": ["\ufeff" + OUTPUT[0], *OUTPUT[1:]]})
    assert results["warnings"][0] == "output ours: began with a byte order mark, which was removed."
    assert results["systems"][0]["overall"] == run()["systems"][0]["overall"]


def test_every_warning_is_said(files):
    said = []
    text = files("source", SOURCE)
    results = analyse(text, text, {"ours": text}, Settings(resampling=Resampling(0)), say=said.append).results
    assert results["warnings"]
    assert [each for each in said if each.startswith("warning: ")] == [
        f"warning: {each}" for each in results["warnings"]
    ]


def test_a_warning_about_several_outputs_stands_once(run):
    lines = ["a house ."] * 100
    outputs = {"one": ["", *lines[1:]], "two": ["", "", *lines[2:]], "three": lines}
    results = run(outputs, source=["ein Haus ."] * 100, reference=["a house."] * 100, metrics=["bleu"])
    assert results["warnings"][:1] == ["output one: 1, output two: 2 of 100 lines are empty; they are kept and count."]
    tokenised = [warning for warning in results["warnings"] if "looks tokenised" in warning]
    assert tokenised == ["output three: looks tokenised; scores of tokenised text do not compare with published ones."]
    more = run({"one": lines, "two": [*lines[:-1], "b ."]}, source=lines, reference=["a house."] * 100)
    assert any(each.startswith("output one, output two: looks tokenised;") for each in more["warnings"])


def test_a_warning_about_many_outputs_names_those_with_most_lines(run):
    lines = ["a house"] * 20
    outputs = {f"s{number}": [""] * number + lines[number:] for number in range(1, 9)}
    results = run(outputs, source=lines, reference=lines, metrics=["bleu"])
    most = "output s8: 8, output s7: 7, output s6: 6, and 5 other texts: at most 6"
    assert results["warnings"][:1] == [f"{most} of 20 lines are empty; they are kept and count."]


def test_tokenised_output_is_told(run):
    lines = ["a house ."] * 100
    results = run({"ours": lines}, source=lines, reference=["a house."] * 100, metrics=["bleu"])
    assert any(warning.startswith("output ours: looks tokenised") for warning in results["warnings"])


def test_metrics_can_be_chosen(run, tmp_path):
    results = run(metrics=["chrf"])
    assert set(results["systems"][0]["overall"]) == {"n", "chrf", "length_difference", "length_ratio"}
    assert not (tmp_path / "out/figures/bleu-by-length.svg").exists()
    assert (tmp_path / "out/figures/chrf-by-length.svg").exists()


def test_lengths_in_subwords(run, tmp_path):
    SentencePieceTrainer.train(
        sentence_iterator=iter(SOURCE * 5), model_prefix=str(tmp_path / "sub"), vocab_size=40, minloglevel=2
    )
    model = tmp_path / "sub.model"
    subwords, words = length_unit("subwords", model)(SOURCE), length_unit("words")(SOURCE)
    assert all(more >= fewer for more, fewer in zip(subwords, words, strict=True))
    assert subwords != words
    results = run(unit="subwords", subword_model=model, bin_edges=[10])
    assert results["bins"][0]["n"] == sum(length < 10 for length in subwords)
    assert any(each["role"] == "subword model" for each in results["inputs"])


def test_words_and_characters():
    assert length_unit("words")(["a  b c ", "", "a\u2028b"]) == [3, 0, 2]
    assert length_unit("characters")(["a b", "", "日本語"]) == [3, 0, 3]


def test_different_line_counts_are_one_error_with_every_file(run, tmp_path):
    with pytest.raises(UserError) as caught:
        run({"ours": OUTPUT, "short": OUTPUT[:-1], "split": [*OUTPUT, "more"]})
    line = caught.value.line()
    for name, count in (("source", 7), ("reference", 7), ("0.out", 7), ("1.out", 6), ("2.out", 8)):
        assert f"{tmp_path / name} has {count}" in line
    assert len(caught.value.lines) == 1
    assert not (tmp_path / "out").exists()


def test_every_unreadable_file_is_told_at_once(files, tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"a\n\xff\xfe\n")
    empty = files("empty", [])
    outputs = {"gone": tmp_path / "gone", "folder": tmp_path, "broken": broken}
    with pytest.raises(UserError) as caught:
        analyse(files("source", ["a", "b"]), empty, outputs)
    text = "\n".join(caught.value.lines)
    assert "reference is empty" in text
    assert "output gone does not exist" in text
    assert "output folder is a folder" in text
    assert f"{broken}:2" in text
    assert len(caught.value.lines) == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bin_width": 5, "bin_edges": [5]}, "bins are specified twice"),
        ({"bin_width": 0}, "width of a bin is at least 1; got 0"),
        ({"max_trained_length": 0}, "trained length is at least 1; got 0"),
        ({"max_trained_length": 4, "min_trained_length": 5}, "shortest trained length, 5, is above the longest, 4"),
        ({"unit": "syllables"}, "no unit of length is called 'syllables'"),
        ({"unit": "subwords"}, "lengths in subwords need the subword model"),
        ({"metrics": ["meteor"]}, "no metric is called 'meteor'"),
        ({"bleu_tokenizer": "jp"}, "sacreBLEU has no tokeniser 'jp'"),
    ],
)
def test_options_that_do_not_go(run, tmp_path, options, sentence):
    with pytest.raises(UserError, match=sentence):
        run(**options)
    assert not (tmp_path / "out").exists()


def test_trained_lengths_given_twice_or_not_at_all(run, files):
    with pytest.raises(UserError, match="trained lengths are specified twice"):
        run(trained_on=files("train", ["a"]), max_trained_length=3)
    with pytest.raises(UserError, match="training text has only empty lines"):
        run(trained_on=files("train", ["", " "]))


def test_subword_models_that_do_not_go(run, files):
    with pytest.raises(UserError, match="a subword model is given, but lengths are in words"):
        run(unit="words", subword_model=files("sub.model", ["x"]))
    for unit in ("subwords", None):
        with pytest.raises(UserError, match="not a SentencePiece model"):
            run(unit=unit, subword_model=files("sub.model", ["x"]))


def test_out_that_is_a_file(run, files):
    with pytest.raises(UserError, match="the output folder is a file"):
        run(out=files("taken", ["x"]))
    with pytest.raises(UserError, match=r"the output folder is inside a file, .*taken \(.*taken/reports/new\)"):
        run(out=files("taken", ["x"]) / "reports" / "new")


def test_outputs_on_the_command_line():
    outputs = parse_outputs(["a=x=y.txt", " b =z"])
    assert {name: str(path) for name, path in outputs.items()} == {"a": "x=y.txt", "b": "z"}
    with pytest.raises(UserError) as caught:
        parse_outputs(["a=x", "a=y", "=z", "q", "r=", "s\tt=u"])
    assert len(caught.value.lines) == 5
    assert "two outputs are called 'a'" in caught.value.lines[0]
