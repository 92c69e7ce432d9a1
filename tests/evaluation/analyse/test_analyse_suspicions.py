"""Warnings of an analysis about texts that are shifted, in another order, exchanged or copied; none of sound ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from posnmt.base.errors import UserError
from posnmt.corpora.artificial.pairs import generate
from posnmt.data.corpus import Findings, TextFile
from posnmt.evaluation.analyse.inputs import Text, read_aligned
from posnmt.evaluation.analyse.suspicions import FEW, warnings
from tests.support.shared import SHARED, missing

PAIRS = list(generate(300, 3, 25, seed=1))
SOURCE, REFERENCE = [pair.source for pair in PAIRS], [pair.target for pair in PAIRS]


def worse(lines, share=0.4):
    """Translations of a poor system: a share of the words is missing, and the others are in another order."""
    drawn = Random(1)
    kept = ([word for word in line.split() if drawn.random() > share] for line in lines)
    return [" ".join(drawn.sample(words, len(words))) for words in kept]


def late(lines, first=0):
    """Lines that are one line late from a row on."""
    return [*lines[:first], lines[first], *lines[first:-1]]


def of(source=SOURCE, references=(REFERENCE,), **outputs):
    """The warnings of an analysis of some lines."""
    texts = [("source", source, None)]
    texts += [(f"reference {number}", lines, None) for number, lines in enumerate(references, start=1)]
    texts += [(f"output {name}", lines, name) for name, lines in outputs.items()]
    return warnings([Text(TextFile(role, Path(f"{role[-4:]}.txt")), lines, system) for role, lines, system in texts])


def test_sound_texts_have_no_warning():
    assert of(good=REFERENCE, poor=worse(REFERENCE), empty=[""] * 300, one=["the"] * 300) == []
    assert of(source=REFERENCE, same=worse(REFERENCE)) == [], "one language"
    written_otherwise = [f" . {line} . ".upper() for line in REFERENCE]
    assert of(source=written_otherwise, kept=worse(written_otherwise)) == []
    assert of(SOURCE[:1], [REFERENCE[:1]], short=SOURCE[:1]) == []


def test_an_output_that_is_shifted_is_named_with_its_offset():
    found = of(good=REFERENCE, poor=late(worse(REFERENCE)), half=worse(late(REFERENCE, 150)))
    assert [sentence.partition(":")[0] for sentence in found] == ["output poor", "output half"]
    assert "in the whole text, the output seems to be one line late (offset +1)" in found[0]
    assert "line n of the reference fits line n + 1 of the output" in found[0]
    assert int(found[1].partition("from about line ")[2].split()[0]) == pytest.approx(151, abs=3)


@pytest.mark.parametrize("lost", [60, 150, 240])
@pytest.mark.parametrize("blamed", ["reference", "output poor"])
def test_a_lost_line_is_looked_for_where_counts_differ(tmp_path, blamed, lost):
    """The refusal names its place; an empty line too many at the end shifts nothing."""
    texts = {"source": SOURCE, "reference": REFERENCE, "output poor": worse(REFERENCE), "output good": [*REFERENCE, ""]}
    del (changed := list(texts[blamed]))[lost - 1]
    texts[blamed] = changed
    paths = {role: tmp_path / role for role in texts}
    for role, lines in texts.items():
        paths[role].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    outputs = {"poor": paths["output poor"], "good": paths["output good"]}
    with pytest.raises(UserError) as caught:
        read_aligned(paths["source"], [paths["reference"]], outputs, {}, Findings(accept=["empty"]))
    _, *hints = caught.value.todo.split(": from about line ")
    [hint] = hints
    assert int(hint.split()[0]) == pytest.approx(lost, abs=5)
    assert f"; {blamed}: from about line" in caught.value.todo


def test_outputs_with_the_same_shift_share_a_sentence():
    [sentence] = of(one=late(REFERENCE), two=late(worse(REFERENCE)))
    assert sentence.startswith("output one, output two: in the whole text")


def test_a_reference_that_is_shifted_is_blamed_alone():
    """Outputs are then compared with another reference, or with the source."""
    for references in ([late(REFERENCE)], [late(REFERENCE), REFERENCE], [REFERENCE, late(REFERENCE)]):
        [sentence] = of(references=references, good=REFERENCE, poor=worse(REFERENCE))
        assert sentence.startswith(f"reference {1 + (references[0] is REFERENCE)}: in the whole text, the reference")
        assert "line n of the source fits line n + 1 of the reference" in sentence
    found = of(references=[late(REFERENCE)], shifted=late(REFERENCE))
    assert [sentence.partition(":")[0] for sentence in found] == ["reference 1", "output shifted"]
    assert "line n of the source fits line n + 1 of the output" in found[1]


def test_exchanged_files_are_named():
    [sentence] = of(source=REFERENCE, references=[SOURCE], mine=worse(REFERENCE), other=REFERENCE)
    assert sentence.startswith("output mine (mine.txt), output other (ther.txt): looks like the source (urce.txt), and")
    [sentence] = of(copied=worse(SOURCE), good=worse(REFERENCE))
    assert sentence.startswith("output copied (pied.txt): looks like the source")
    assert of(SOURCE[: FEW - 1], [REFERENCE[: FEW - 1]], copied=SOURCE[: FEW - 1]) == []


ORDERS = {
    "reversed": lambda lines: lines[::-1],
    "shuffled": lambda lines: Random(2).sample(lines, len(lines)),
    "rotated": lambda lines: [*lines[20:], *lines[:20]],
    "halves exchanged": lambda lines: [*lines[len(lines) // 2 :], *lines[: len(lines) // 2]],
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_output_in_another_order_is_named(order):
    """Its offset is not: it is larger than those that are tried, or there is none."""
    for output in (REFERENCE, worse(REFERENCE)):
        [sentence] = of(good=REFERENCE, other=ORDERS[order](output))
        assert sentence.startswith("output other: ")
        assert "offset +" not in sentence
        assert "offset -" not in sentence


def test_a_bad_translation_is_in_order():
    """Four words in five are other ones, in any order, and lengths vary; of 50 lines and more."""
    drawn = Random(3)
    words = [word for line in REFERENCE for word in line.split()]
    for count in (50, 300):
        bad = []
        for line in REFERENCE[:count]:
            kept = [word for word in line.split() if drawn.random() < 0.2]
            kept += drawn.choices(words, k=max(0, int(len(line.split()) * drawn.uniform(0.5, 1.5)) - len(kept)))
            bad.append(" ".join(drawn.sample(kept, len(kept))))
        assert of(SOURCE[:count], [REFERENCE[:count]], bad=bad) == []


def test_lines_that_are_copied_from_the_source_are_counted():
    """Not those that the reference has as well, nor those without letters."""
    copied = [*SOURCE[:31], *REFERENCE[31:]]
    assert of(partly=copied) == ["output partly: 31 of 300 lines are copies of the source line."]
    assert of(partly=[*SOURCE[:30], *REFERENCE[30:]]) == []
    assert of(half=[*SOURCE[:150], *REFERENCE[150:]])[-1].startswith("output half: 150 of 300 lines are copies")
    assert of(references=[[*SOURCE[:31], *REFERENCE[31:]]], both=copied) == []
    assert of(references=[REFERENCE, copied], second=copied) == []
    numbers = [str(number * 7919 % 10007) for number in range(40)]
    assert (
        of([*SOURCE[:260], *numbers], [[*REFERENCE[:260], *reversed(numbers)]], kept=[*REFERENCE[:260], *numbers]) == []
    )
    assert of(SOURCE[: FEW - 1], [REFERENCE[: FEW - 1]], few=[*SOURCE[:9], *REFERENCE[9 : FEW - 1]]) == []


def test_an_analysis_has_them_among_its_warnings(run):
    results = run({"mine": late(REFERENCE)}, source=SOURCE, reference=REFERENCE)
    assert [sentence.startswith("output mine: in the whole text") for sentence in results["warnings"]] == [True]


REAL = [("ende_multi30k", "test2016_flickr", "de", "en"), ("zhen_wmt_news", "test", "zh", "en")]
REAL += [("enja_bsd", "test", "en", "ja"), ("multi_ntrex_flores", "ntrex", "ja", "zh")]


@pytest.mark.parametrize(("folder", "name", "source", "target"), REAL)
def test_real_texts(folder, name, source, target):
    """The output is the reference without some of its characters."""
    if not (SHARED / folder).is_dir():
        pytest.skip(missing(folder))
    sides = [(SHARED / folder / f"{name}.{side}").read_bytes().decode().split("\n")[:500] for side in (source, target)]
    drawn = Random(1)
    output = ["".join(character for character in line if drawn.random() > 0.2) for line in sides[1]]
    assert of(sides[0], [sides[1]], mine=output) == []
    [sentence] = of(sides[0], [sides[1]], mine=late(output, 250))
    assert "(offset +1)" in sentence
    [sentence] = of(sides[1], [sides[0]], mine=output)
    assert "looks like the source" in sentence
