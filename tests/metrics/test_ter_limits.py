"""What sacreBLEU's bounded search does to TER: docs/metrics.md says so, and must be mended when this changes."""

import random

import pytest
from sacrebleu.metrics import lib_ter

from posnmt.metrics.edit_rate import ter_search_limits
from posnmt.metrics.ter import ter_statistics

UNBOUNDED = 10**9


def edits(output, reference):
    """Ours, and sacreBLEU's: with its limits as they are now."""
    (counted, _), *_ = ter_statistics([" ".join(output)], [" ".join(reference)])
    return counted, lib_ter.translation_edit_rate(output, reference)[0]


def words(count):
    return [f"w{number}" for number in range(count)]


@pytest.mark.parametrize(("length", "kept", "found"), [(60, 36, 24), (60, 34, 27), (100, 60, 51), (200, 120, 162)])
def test_the_band_finds_too_many_edits_in_outputs_that_break_off(monkeypatch, length, kept, found):
    """The fewest edits are the words that are missing. The band follows the diagonal of the two lengths, and the words
    that are there leave it when more than 25 are missing."""
    assert edits(words(length)[:kept], words(length)) == (found, found)
    monkeypatch.setattr(lib_ter, "_BEAM_WIDTH", UNBOUNDED)
    assert edits(words(length)[:kept], words(length))[1] == length - kept


@pytest.mark.slow
def test_the_number_of_shift_candidates_stops_the_search(monkeypatch):
    reference = random.Random(1).choices(words(12), k=60)
    blocks = [reference[first : first + 6] for first in range(0, 60, 6)]
    output = [word for first in range(0, 10, 2) for block in (blocks[first + 1], blocks[first]) for word in block]
    assert edits(output, reference) == (20, 20)
    monkeypatch.setattr(lib_ter, "_MAX_SHIFT_CANDIDATES", UNBOUNDED)
    assert edits(output, reference)[1] == 5  # a shift for each two blocks


def test_the_limits_are_reported_and_sacrebleu_s():
    limits = {"band": 25, "shift_size": 10, "shift_distance": 50, "shift_candidates": 1000}
    assert ter_search_limits() == limits
    names = ("_BEAM_WIDTH", "_MAX_SHIFT_SIZE", "_MAX_SHIFT_DIST", "_MAX_SHIFT_CANDIDATES")
    assert [getattr(lib_ter, name) for name in names] == list(limits.values())
