"""Losses of subwords spread over characters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.evaluation.analyse.by_character import character_widths, spread

SUBWORDS = st.lists(st.tuples(st.floats(0, 20), st.floats(0.1, 9)), min_size=1, max_size=12)


@given(SUBWORDS, st.integers(1, 40))
def test_each_character_has_its_share(subwords, characters):
    """Against plain loops over both; the sum stays."""
    losses, widths = (np.array(each) for each in zip(*subwords, strict=True))
    got = spread(np.stack([losses, 2 * losses]), widths, characters)
    scale, begin, expected = characters / widths.sum(), 0.0, np.zeros(characters)
    for loss, width in subwords:
        end = begin + width * scale
        for place in range(characters):
            expected[place] += loss * max(0.0, min(end, place + 1) - max(begin, place)) / (end - begin)
        begin = end
    np.testing.assert_allclose(got[0], expected, atol=1e-9)
    np.testing.assert_allclose(got[1], 2 * expected, atol=1e-9)
    assert got[0].sum() == pytest.approx(losses.sum())


def test_no_characters():
    assert spread(np.zeros((2, 0)), np.zeros(0), 0).shape == (2, 0)


def test_bytes_of_a_character_share_one():
    text = "aé語🙂"
    pieces = [f"<0x{byte:02X}>" for byte in text.encode()]
    widths = character_widths(pieces)
    ends = np.cumsum([len(sign.encode()) for sign in text])
    np.testing.assert_allclose(np.cumsum(widths)[ends - 1], [1, 2, 3, 4])
    assert character_widths(["▁word", "s", "<unk>"]).tolist() == [5, 1, 1]
    assert character_widths(["<0xC3>", "<0xA9>", "<0x61>"]).tolist() == [0.5, 0.5, 1]
