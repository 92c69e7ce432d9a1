"""Pairs held out of a corpus: by documents or blocks, without a line of training, one sentence a line."""

from collections import Counter

import pytest

from posnmt.base.errors import UserError
from posnmt.data.corpus import Pair
from posnmt.study.held_out import BLOCK, hold_out, read, usable, write


def pairs(*sizes):
    """Pairs in documents of these sizes."""
    names = [f"d{number}" for number, size in enumerate(sizes) for _ in range(size)]
    return [Pair(line, f"s{line}", f"t{line}", name) for line, name in enumerate(names, start=1)]


@pytest.mark.parametrize("wanted", [(30, 10), (1, 1), (0, 7), (0, 0)])
def test_parts_are_whole_documents_and_together_the_corpus(wanted):
    corpus = pairs(*range(1, 21))
    *parts, rest = hold_out(corpus, *wanted)
    assert sorted(pair for part in (*parts, rest) for pair in part) == corpus
    documents = [{pair.document for pair in part} for part in (*parts, rest)]
    assert sum(map(len, documents)) == 20  # no document is in two parts
    for part, count in zip(parts, wanted, strict=True):
        sizes = Counter(pair.document for pair in part)
        assert part == sorted(part)
        assert count <= len(part) < count + max(sizes.values(), default=1)  # no document too many
    assert hold_out(corpus, *wanted) == [*parts, rest]


def test_documents_that_are_too_large_are_refused():
    with pytest.raises(UserError, match="10 of 110 pairs would be left"):
        hold_out(pairs(100, 10), 5, 0)


def test_blocks_stand_for_documents_that_are_not_known(tmp_path):
    lines = 2 * BLOCK + 5
    for name in ("a", "b"):
        (tmp_path / name).write_text("".join(f"{name}{number}\n" for number in range(lines)))
    (tmp_path / "ids").write_text("x 1\n" * 3 + "\n" * 2 + "y\n" * (lines - 5))
    unknown = read(tmp_path / "a", tmp_path / "b")
    assert [*Counter(pair.document for pair in unknown).values()] == [BLOCK, BLOCK, 5]
    known = read(tmp_path / "a", tmp_path / "b", tmp_path / "ids")
    assert [*Counter(pair.document for pair in known).values()] == [3, 2, lines - 5]
    assert [pair.source for pair in known] == [f"a{number}" for number in range(lines)]


def test_texts_of_unequal_length_are_refused(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    with pytest.raises(UserError, match=r"different line counts: .*a has 2, .*b has 1"):
        read(tmp_path / "a", tmp_path / "b")


def test_a_test_has_no_line_of_training_and_one_sentence_a_line():
    training = [Pair(1, "Known words.", "Bekanntes.", "d"), Pair(2, "Others.", "Andere.", "d")]
    held = [
        Pair(3, "New words.", "Neues.", "d"), Pair(4, "Known words.", "Neu.", "d"), Pair(5, "New.", "Andere.", "d"),
        Pair(6, "It rains. We stay at home.", "Es regnet, wir bleiben daheim.", "d"), Pair(7, " ", "Leer.", "d"),
        Pair(8, "Dr. Smith stays at home.", "Dr. Smith bleibt daheim.", "d"),
    ]  # fmt: skip
    found = usable(held, training, "en")
    assert [pair.line for pair in found.pairs] == [3, 8]
    assert (found.seen, found.several, found.blank) == (2, 1, 1)
    assert len(found.pairs) + found.seen + found.several + found.blank == len(held)


def test_what_is_written_is_read_again(tmp_path):
    corpus = pairs(3, 2)
    write(corpus, tmp_path, "test", ("en", "de"), documents=True)
    assert read(tmp_path / "test.en", tmp_path / "test.de", tmp_path / "test.documents") == corpus
    write(corpus, tmp_path, "train", ("en", "de"))
    assert not (tmp_path / "train.documents").exists()
