"""Paragraphs whose boundaries of sentences are hidden are cut where they were joined."""

import random
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from sacrebleu import corpus_chrf

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.completeness.requested import realigned
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.places import by_place
from posnmt.evaluation.analyse.settings import Settings
from tests.support.completeness_case import lines, paragraphs

SHARED = Path(__file__).parents[3].parent / "shared" / "data"


def right(texts, wanted):
    """The share of lines that are as they should be, apart from blanks at their ends."""
    return sum(one.strip() == other.strip() for one, other in zip(texts, wanted, strict=True)) / len(wanted)


def test_sentences_come_back():
    sources, targets = paragraphs(40, sizes=(1, 3, 5))
    result = realigned(lines(sources), [lines(targets)], ("en", "en"))
    assert (
        right(result.texts[0], list(chain.from_iterable(sources)))
        == right(result.texts[1], list(chain.from_iterable(targets)))
        == 1
    )
    assert result.places == [place for each in sources for place in range(len(each))]


def test_a_deleted_sentence_leaves_an_empty_line_and_the_others_in_their_places():
    sources, targets = paragraphs(40, sizes=(3, 4))
    lost = [random.Random(number).randrange(len(each)) for number, each in enumerate(targets)]
    kept = [["" if place == gone else each for place, each in enumerate(line)]
            for line, gone in zip(targets, lost, strict=True)]  # fmt: skip
    output = [" ".join(filter(None, line)) for line in kept]
    result = realigned(lines(sources), [lines(targets), output], ("en", "en"))
    assert right(result.texts[2], list(chain.from_iterable(kept))) > 0.97
    joined = iter(result.texts[2])
    assert ["".join(next(joined) for _ in line) for line in sources] == output


def test_an_opening_quotation_mark_goes_with_the_word_behind_it():
    sources, targets = paragraphs(40)
    quoted = [[f"„{each}“" for each in of_line] for of_line in targets]
    result = realigned(lines(sources), [lines(quoted)], ("en", "de"))
    assert right(result.texts[1], list(chain.from_iterable(quoted))) == 1


def test_lines_without_words_stay_lines():
    result = realigned(["", "…", "Da. Da."], [["", "Q.", ""]], ("de", "en"))
    assert result.texts == [["", "…", "Da. ", "Da."], ["", "Q.", "", ""]]
    assert result.places == [0, 0, 0, 1]


@pytest.mark.skipif(not SHARED.exists(), reason="the corpora of ../shared/data are absent")
@pytest.mark.parametrize(("pair", "least"), [("en-de", 0.85), ("en-zh", 0.75)])
def test_boundaries_of_real_paragraphs(pair, least):
    here, there = pair.split("-")
    read = [
        (SHARED / "multi_ntrex_flores" / f"ntrex.{side}").read_text("utf-8").split("\n")[:600] for side in (here, there)
    ]
    gap = "" if there == "zh" else " "
    groups = [slice(at, at + 3) for at in range(0, 600, 3)]
    result = realigned([" ".join(read[0][g]) for g in groups], [[gap.join(read[1][g]) for g in groups]], (here, there))
    hidden = [sum(len(each) + len(gap) for each in read[1][g][:k]) for g in groups for k in (1, 2)]
    ends, at, line = set(), 0, -1
    for piece, place in zip(result.texts[1], result.places, strict=True):
        line, at = (line + 1, 0) if place == 0 else (line, at)
        at += len(piece)
        ends.add((line, at))
    assert sum((number // 2, place) in ends for number, place in enumerate(hidden)) / len(hidden) > least


def test_scores_by_place_are_those_of_the_sentences_there(run, tmp_path):
    sources, targets = paragraphs(30, sizes=(2, 3))
    worse = [[line[0], *("Qqq " + each for each in line[1:])] for line in targets]
    results = run({"ours": lines(worse)}, lines(sources), lines(targets), realign=True, metrics=["chrf"],
                  resampling=Resampling(40))  # fmt: skip
    places, [ours] = results["places"], results["places"]["systems"]
    assert places["labels"] == ["1", "2", "3"]
    assert places["n"] == [sum(len(line) > place for line in sources) for place in range(3)]
    for place in range(3):
        pairs = [(line[place], other[place]) for line, other in zip(worse, targets, strict=True) if len(line) > place]
        outputs, references = zip(*pairs, strict=True)
        assert ours["chrf"][place] == pytest.approx(corpus_chrf(list(outputs), [list(references)]).score, abs=1.5)
        assert ours["intervals"]["chrf"][place][0] <= ours["chrf"][place] <= ours["intervals"]["chrf"][place][1]
    assert ours["chrf"][0] > ours["chrf"][1] + 1
    assert len((tmp_path / "out/places.csv").read_text().splitlines()) == 4
    assert results["systems"][0]["overall"]["n"] == sum(map(len, sources))


def test_sentences_from_the_tenth_on_are_one_place():
    edits, words = np.arange(13.0), np.full(13, 20.0)
    additive = Additive.of({"ter": [np.stack([edits, words], axis=1)]}, [words], words)
    places = by_place(additive, [*range(12), 0], ["ours"], samples=0, seed=1)
    assert places["labels"] == [*map(str, range(1, 10)), "10-"]
    assert places["n"] == [2, *[1] * 8, 3]
    assert places["systems"][0]["ter"] == pytest.approx([100 * 12 / 40, *range(5, 45, 5), 100 * (9 + 10 + 11) / 60])


def test_paragraphs_are_cut_by_the_rules_of_their_language(run):
    source, target = ["Am 3. Mai war es warm. Gut."], ["It was warm on 3 May. Good."]
    counts = [
        run({"ours": target}, source, target, realign=True, source_language=code)["systems"][0]["overall"]["n"]
        for code in ("de", "en")
    ]
    assert counts == [2, 3]


def test_what_belongs_to_whole_lines_cannot_be_cut(run, files):
    with pytest.raises(UserError, match="cannot be cut"):
        analyse(files("s", ["A b."]), files("r", ["A b."]), {"o": files("o", ["A b."])}, Settings(realign=True),
                scores={"comet": {"o": files("c", ["1"])}})  # fmt: skip
