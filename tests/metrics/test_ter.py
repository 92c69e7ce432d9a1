"""TER's edits are sacreBLEU's, line by line: its band, its limits, its choice among equals."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import TER, lib_ter

from posnmt.metrics import ter, ter_tables
from posnmt.metrics.ter import ter_statistics
from posnmt.metrics.ter_pairs import pairs_of
from posnmt.metrics.ter_tables import STEEPEST, Moves, Tables
from tests.support.shared import SHARED, needs

SETS = SHARED / "deen_wmt_news" / "sets"
WORDS = [f"w{number}" for number in range(200)]


def sacrebleu_s(outputs, references):
    return TER(references=[references])._extract_corpus_statistics(outputs, None)


def lines(draw, count, shortest, longest, vocabulary):
    return [" ".join(draw.choices(WORDS[:vocabulary], k=draw.randint(shortest, longest))) for _ in range(count)]


def noisy(draw, line, share):
    """The line with words changed and left out, and often with a few moved together."""
    words = [
        draw.choice(WORDS) if draw.random() < share else word for word in line.split() if draw.random() > share / 2
    ]
    for _ in range(draw.randrange(4)):
        first, place = (draw.randrange(len(words) + 1) for _ in range(2))
        moved = words[first : first + 5]
        del words[first : first + 5]
        words[place:place] = moved
    return " ".join(words)


sentences = st.lists(st.lists(st.sampled_from("abcde"), max_size=12).map(" ".join), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(sentences, sentences)
def test_short_lines(outputs, references):
    count = min(len(outputs), len(references))
    assert ter_statistics(outputs[:count], references[:count]).tolist() == sacrebleu_s(
        outputs[:count], references[:count]
    )


# Shortest and longest line, and the size of the vocabulary: few words make many ties, and many candidates for shifts.
@pytest.mark.parametrize(
    ("count", "output", "reference", "vocabulary"),
    [
        (150, (0, 24), (0, 24), 12),
        (12, (20, 30), (20, 30), 8),
        (40, (1, 20), (26, 70), 30),  # outside the band where the diagonal goes down slowly
        (40, (26, 70), (1, 20), 30),
        (2, (50, 70), (50, 70), 60),  # shifts over more than 50 words; more than 64 columns
        (1, (60, 80), (60, 80), 3),  # too many candidates
        (1, (100, 120), (100, 120), 150),
        (60, (1, 3), (STEEPEST - 2, STEEPEST * 3 + 2), 5),  # on both sides of what the tables hold
    ],
)
def test_unlike_lines(count, output, reference, vocabulary):
    draw = random.Random(count)
    outputs, references = lines(draw, count, *output, vocabulary), lines(draw, count, *reference, vocabulary)
    assert ter_statistics(outputs, references).tolist() == sacrebleu_s(outputs, references)


@pytest.mark.parametrize("candidates", [1, 2, 5, 12, 30])
def test_small_limits(monkeypatch, candidates):
    """Short lines meet every limit when the limits are small, and exactly, too."""
    limits = {"BAND": 3, "SHIFT_SIZE": 2, "SHIFT_DISTANCE": 4, "SHIFT_CANDIDATES": candidates, "STEEPEST": 6}
    for name, limit in limits.items():
        monkeypatch.setattr(ter, name, limit)
    monkeypatch.setattr(ter_tables, "BAND", limits["BAND"])
    names = ("_BEAM_WIDTH", "_MAX_SHIFT_SIZE", "_MAX_SHIFT_DIST", "_MAX_SHIFT_CANDIDATES")
    for name, limit in zip(names, limits.values(), strict=False):
        monkeypatch.setattr(lib_ter, name, limit)
    draw = random.Random(candidates)
    outputs, references = lines(draw, 300, 0, 14, 8), lines(draw, 300, 0, 14, 8)
    assert ter_statistics(outputs, references).tolist() == sacrebleu_s(outputs, references)


def test_like_lines_of_all_lengths_together():
    draw = random.Random(2)
    references = [*lines(draw, 200, 0, 45, 150), *lines(draw, 4, 60, 160, 200)]
    outputs = [noisy(draw, line, 0.2) for line in references]
    outputs[:30] = [line[: len(line) // 2] for line in references[:30]]
    expected = sacrebleu_s(outputs, references)
    assert ter_statistics(outputs, references).tolist() == expected
    assert sum(edits for edits, _ in expected) > 100


def test_a_very_long_line():
    draw = random.Random(3)
    reference = " ".join(f"{word}-{number // 7}" for number, word in enumerate(draw.choices(WORDS[:50], k=600)))
    output = noisy(draw, reference, 0.02)
    assert ter_statistics([output], [reference]).tolist() == sacrebleu_s([output], [reference])


def test_a_line_of_one_word_over_and_over():
    """It has a million places where words are the same; the limit of candidates ends the search."""
    assert ter_statistics(["a " * 10_500], ["a " * 10_000]).tolist() == [[500, 10_000]]


def test_the_words_are_those_of_sacrebleu():
    outputs = ["The Cat\u00a0sat\ton  the mat .", "", "   ", "STRASSE straße ΟΔΟΣ", "a\u2028b c", "same", "a b"]
    references = ["the cat sat on the MAT.", "a b", "", "strasse Straße οδος", "c a b", "same", " "]
    assert ter_statistics(outputs, references).tolist() == sacrebleu_s(outputs, references)


def test_equal_lines_are_counted_once(monkeypatch):
    counted = []
    monkeypatch.setattr(ter, "pairs_of", lambda *sides: counted.append(len(sides[0])) or pairs_of(*sides))
    assert ter_statistics(["a b c", "a b c", "c a"], ["b c d", "b c d", "a c"]).tolist() == [[2, 3], [2, 3], [1, 2]]
    assert counted == [2]


@pytest.mark.parametrize(("longest", "vocabulary"), [(24, 6), (60, 20), (130, 60)])
def test_alignments_and_moves_are_those_of_sacrebleu_s_table(longest, vocabulary):
    draw = random.Random(longest)
    sides = [[draw.choices(range(vocabulary), k=draw.randint(1, longest)) for _ in range(30)] for _ in range(2)]
    outputs, references = sides
    outputs.sort(key=len, reverse=True)
    pairs = pairs_of(outputs, references)
    tables = Tables(pairs)
    alignment = tables.align()
    for pair, (output, reference) in enumerate(zip(outputs, references, strict=True)):
        oracle = lib_ter.BeamEditDistance(reference)
        edits, trace = oracle(output)
        aligned, reference_wrong, output_wrong = lib_ter.trace_to_alignment(lib_ter._flip_trace(trace))
        rows = slice(pairs.rows[pair] + 1, pairs.rows[pair] + 1 + len(output))
        columns = slice(pairs.columns[pair] + 1, pairs.columns[pair] + 1 + len(reference))
        assert tables.distances[pair] == edits
        assert alignment.rows[columns].tolist() == [aligned[place] + 1 for place in range(len(reference))]
        assert alignment.output_wrong[rows].tolist() == output_wrong
        assert alignment.reference_wrong[columns].tolist() == reference_wrong
        ends = sorted(draw.sample(range(len(output) + 1), 3)) if len(output) > 1 else [0, 0, 1]
        begin, middle, end = ends
        moved = output[:begin] + output[middle:end] + output[begin:middle] + output[end:]
        move = Moves(*(np.array([number]) for number in (pair, *ends)))
        assert tables.moved(move).tolist() == [oracle(moved)[0]]


@needs("deen_wmt_news/sets")
@pytest.mark.parametrize(
    ("output", "reference", "count"),
    [
        ("newstest2020-deen.refB.en", "newstest2020-deen.en", 25),  # paragraphs; two people's translations
        ("newstest2014.de", "newstest2014.en", 200),  # the source instead of a translation
    ],
)
def test_real_lines(output, reference, count):
    outputs, references = (
        (SETS / name).read_text(encoding="utf-8").split("\n")[:count] for name in (output, reference)
    )
    assert ter_statistics(outputs, references).tolist() == sacrebleu_s(outputs, references)
