"""Word alignments: Pharaoh files, symmetrisation, the measures of order, and eflomal against gold alignments."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.base.programs import found
from posnmt.corpora.artificial.pairs import generate
from posnmt.data.alignment import (
    align,
    alignment_error_rate,
    kendall_tau,
    pharaoh,
    read_alignment,
    symmetrise,
    target_places,
    tokens,
)

PAIRS = [(["a", "b"], ["x", "y", "z"]), ([], []), (["c"], ["w"])]

links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)))


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def test_tokens_end_at_blanks_and_tabs_alone():
    assert tokens("  one\ttwo  thr\u3000ee fo\u00a0ur\u2028 ") == ["one", "two", "thr\u3000ee", "fo\u00a0ur\u2028"]
    assert tokens(" \t ") == []


def test_pharaoh_there_and_back(tmp_path):
    alignment = read_alignment(write(tmp_path / "a", "1-0 0-2  1-1\n\n0-0\n"), PAIRS)
    assert alignment == [{(1, 0), (0, 2), (1, 1)}, set(), {(0, 0)}]
    assert [pharaoh(each) for each in alignment] == ["0-2 1-0 1-1", "", "0-0"]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("0-0\n\n1-0\n", ":3", r"link 1-0 is outside the source sentence, which has 1 tokens"),
        ("0-3\n\n0-0\n", ":1", r"link 0-3 is outside the target sentence, which has 3 tokens"),
        ("0-0\n0-0\n\n", ":2", r"link 0-0 is outside the source sentence, which has 0 tokens"),
        ("0-0 1:1\n\n\n", ":1", r"'1:1' is not a link"),
        ("0-0 -1-1\n\n\n", ":1", r"'-1-1' is not a link"),
        ("0-0\n\n", "", "2 lines of alignments for 3 sentence pairs"),
        ("0-0\n\n\n0-0\n", "", "4 lines of alignments for 3 sentence pairs"),
    ],
)
def test_what_is_wrong_with_an_alignment_file(tmp_path, text, where, what):
    path = write(tmp_path / "a", text)
    with pytest.raises(UserError, match=what) as caught:
        read_alignment(path, PAIRS)
    assert f"({path}{where})" in str(caught.value)


def test_alignment_file_that_is_missing(tmp_path):
    with pytest.raises(UserError, match="alignment does not exist"):
        read_alignment(tmp_path / "none", PAIRS)


def test_grow_diag_final_and_by_hand():
    forward = {(0, 0), (1, 1), (2, 1), (3, 3), (0, 4), (5, 6)}
    reverse = {(0, 0), (1, 1), (3, 3), (3, 2), (4, 4), (6, 6)}
    # (2, 1) and (3, 2) are neighbours of common links; (4, 4) is one of (3, 3). Of (0, 4) both tokens then have links.
    # Nothing is near (5, 6): it comes last, and (6, 6) after it finds its target token taken.
    expected = {(0, 0), (1, 1), (2, 1), (3, 3), (3, 2), (4, 4), (5, 6)}
    assert symmetrise(forward, reverse) == expected


@given(links, links)
def test_symmetrised_links_are_between_intersection_and_union(forward, reverse):
    both = symmetrise(forward, reverse)
    assert forward & reverse <= both <= forward | reverse
    for one, other in ({i for i, _ in both}, 0), ({j for _, j in both}, 1):
        if not forward & reverse and forward | reverse:
            assert one, other
    # No link of either direction is left out that would join two tokens without links.
    rows, columns = {i for i, _ in both}, {j for _, j in both}
    assert all(i in rows or j in columns for i, j in forward | reverse)


@given(links)
def test_two_directions_that_agree(forward):
    assert symmetrise(forward, forward) == forward


def test_alignment_error_rate():
    gold = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 1)})]
    assert alignment_error_rate(gold, gold) == 0
    assert alignment_error_rate([frozenset({(0, 0)}), frozenset({(0, 0)})], gold) == pytest.approx(1 - 2 / 5)


def test_places_are_means_and_unknown_without_links():
    places = target_places(frozenset({(0, 3), (0, 4), (2, 0)}), 3)
    assert places[0] == 3.5
    assert math.isnan(places[1])
    assert places[2] == 0


@given(st.lists(st.one_of(st.just(math.nan), st.integers(0, 5).map(float)), max_size=8))
def test_kendall_tau_counts_pairs(places):
    signs = [
        (later > earlier) - (later < earlier)
        for index, earlier in enumerate(places)
        for later in places[index + 1 :]
        if not (math.isnan(later) or math.isnan(earlier)) and later != earlier
    ]
    found = kendall_tau(np.array(places))
    if signs:
        assert found == pytest.approx(sum(signs) / len(signs))
    else:
        assert found is None


@pytest.mark.skipif(
    found("eflomal-align") is None,
    reason="eflomal is not installed: pip install 'posnmt[reorder]', beside a C compiler",
)
def test_eflomal_finds_the_gold_alignments_of_the_artificial_pair():
    pairs = list(generate(1500, 3, 14, seed=1))
    rows = [(tokens(pair.source), tokens(pair.target)) for pair in pairs]
    # A white-space character inside a token, and a pair without words, must not shift anything.
    rows = [(["\u3000".join((word, "x")) for word in source], target) for source, target in rows]
    found = align([*rows, ([], [])])
    assert found.pop() == frozenset()
    rate = alignment_error_rate(found, [frozenset(pair.alignment) for pair in pairs])
    print(f"alignment error rate {rate:.3f}")
    assert rate < 0.25


def test_without_eflomal_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"eflomal, which is not installed; pip install eflomal"):
        align(PAIRS)


def test_eflomal_that_fails(tmp_path, monkeypatch):
    program = write(tmp_path / "eflomal-align", "#!/bin/sh\necho out of luck >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UserError, match="eflomal failed: out of luck"):
        align(PAIRS)
