"""`posnmt condition length-split` and `cap`: what is written, in which order, how equal the parts are, what is said."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.cli.main import main
from posnmt.config.schema import Subword
from posnmt.corpora.conditions.length import cap, choose_unit, describe, equal_tokens, length_split
from posnmt.corpora.conditions.text import parallel_text
from posnmt.data.subword import Subwords
from tests.support.shared import SHARED, needs

MANPAGES = SHARED / "ende_manpages"
WORDS = choose_unit("words")


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def lines(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def words(count, letter="a"):
    return " ".join([letter] * count)


@pytest.fixture
def corpus(tmp_path):
    """90 pairs of 1 to 9 source words, each length in turn, and one target word more."""
    lengths = [number % 9 + 1 for number in range(90)]
    return {
        "source": write(tmp_path / "s", [f"{words(n - 1, 's')} {row}".strip() for row, n in enumerate(lengths)]),
        "target": write(tmp_path / "t", [f"{words(n, 't')} {row}" for row, n in enumerate(lengths)]),
    }


def test_parts_hold_every_pair_once_in_its_order(tmp_path, corpus):
    manifest = length_split(tmp_path / "out", parallel_text(**corpus), WORDS)
    source, target = lines(corpus["source"]), lines(corpus["target"])
    seen = []
    for name in ("short", "middle", "long"):
        numbers = [int(line) for line in lines(tmp_path / "out" / f"{name}.lines")]
        assert numbers == sorted(numbers)
        assert lines(tmp_path / "out" / f"{name}.source") == [source[number - 1] for number in numbers]
        assert lines(tmp_path / "out" / f"{name}.target") == [target[number - 1] for number in numbers]
        seen += numbers
    assert sorted(seen) == list(range(1, 91))
    # 450 tokens; 1 to 5 words have 10 pairs each, together 150: the first cut falls between 5 and 6. The second falls
    # among those of 8 words: 296 and 304 are as near to 300.
    parts = manifest["statistics"]["parts"]
    assert [parts[name]["source"]["tokens"] for name in parts] == [150, 154, 146]
    assert parts["short"] == {
        "pairs": 50,
        "source": {"tokens": 150, "mean": 3.0, "shortest": 1, "longest": 5},
        "target": {"tokens": 200, "mean": 4.0, "shortest": 2, "longest": 6},
    }
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["parameters"]["unit"] == "words"
    assert manifest["statistics"]["read"] == 90


@given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.integers(2, 6))
def test_tokens_are_equal_within_the_longest_sentence(lengths, parts):
    total, longest = sum(lengths), max(lengths)
    try:
        part_of = equal_tokens(np.array(lengths), parts)
    except UserError:
        assert longest * parts >= total
        return
    assert set(part_of.tolist()) == set(range(parts))
    tokens = np.bincount(part_of, weights=lengths)
    assert (abs(tokens - total / parts) <= longest).all()
    cuts = np.cumsum(tokens)[:-1]
    shares = np.arange(1, parts) * total / parts
    assert (abs(cuts - shares) <= longest / 2).all(), "each cut is at the nearest sentence"
    order = sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    assert part_of[order].tolist() == sorted(part_of.tolist()), "cut from the text sorted by length, then by place"


@pytest.mark.parametrize("lengths", [[], [7], [0, 0, 0, 0], [1, 1, 1, 90]])
def test_parts_that_would_be_empty_are_refused(lengths):
    with pytest.raises(UserError, match="cannot be split into 3 equal parts: one would be empty"):
        equal_tokens(np.array(lengths, dtype=int), 3)


@pytest.mark.parametrize(("parts", "names"), [(2, ["short", "long"]), (4, ["part-1", "part-2", "part-3", "part-4"])])
def test_names_of_parts(tmp_path, corpus, parts, names):
    manifest = length_split(tmp_path / "out", parallel_text(**corpus), WORDS, parts)
    assert list(manifest["statistics"]["parts"]) == names
    assert list(manifest["files"]) == [f"{name}.{kind}" for name in names for kind in ("source", "target", "lines")]


def test_same_input_same_bytes(tmp_path, corpus):
    for name in ("a", "b"):
        length_split(tmp_path / name, parallel_text(**corpus), WORDS)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize("maximum", [1, 4, 9])
def test_cap_keeps_what_fits_on_both_sides(tmp_path, maximum):
    # by source: 1 ... 10; by target: 10 ... 1; then a pair that is short on both sides, and one more with a long source
    sizes = [*zip(range(1, 11), range(10, 0, -1), strict=True), (1, 1), (10, 1)]
    source = write(tmp_path / "s", [words(n) for n, _ in sizes])
    target = write(tmp_path / "t", [words(n) for _, n in sizes])
    manifest = cap(tmp_path / "out", parallel_text(source, target), WORDS, maximum)
    kept = [row for row, (one, other) in enumerate(sizes) if one <= maximum and other <= maximum]
    for name, given_lines in (("source", lines(source)), ("target", lines(target)), ("lines", range(1, 13))):
        assert lines(tmp_path / "out" / f"capped.{name}") == [str(given_lines[row]) for row in kept]
    parts = manifest["statistics"]["parts"]
    assert {name: facts["pairs"] for name, facts in parts.items()} == {
        "kept": len(kept),
        "source too long": sum(one > maximum >= other for one, other in sizes),
        "target too long": sum(other > maximum >= one for one, other in sizes),
        "both too long": sum(one > maximum and other > maximum for one, other in sizes),
    }
    assert parts["kept"] == describe(np.array([sizes[row] for row in kept]))


def test_cap_that_keeps_nothing(tmp_path, corpus):
    write(corpus["source"], ["a b c", "a b c d"])
    write(corpus["target"], ["a b c d", "a b c d e"])
    with pytest.raises(UserError, match=r"no pair has at most 3 words on both .*\(--max-length\); choose 4 or more"):
        cap(tmp_path / "out", parallel_text(**corpus), WORDS, 3)
    assert not (tmp_path / "out").exists()


def test_units(tmp_path):
    source = ["der kleine Hund", "der kleine Hund läuft", "ein Hund"] * 30
    subwords = Subwords.learn(source, Subword(vocabulary=40), "source")
    subwords.save(tmp_path / "m.model")
    text = {"source": write(tmp_path / "s", source), "target": write(tmp_path / "t", ["x"] * 90)}
    pieces = subwords.encode(source)
    expected = {
        "words": ([3, 4, 2] * 30, 90),
        "characters": ([15, 21, 8] * 30, 90),
        "subwords": ([len(each) for each in pieces], sum(map(len, subwords.encode(["x"] * 90)))),
    }
    for name, (counts, target_tokens) in expected.items():
        unit = choose_unit(name, tmp_path / "m.model" if name == "subwords" else None)
        facts = cap(tmp_path / name, parallel_text(**text), unit, 100)["statistics"]["parts"]["kept"]
        assert facts["source"]["tokens"] == sum(counts)
        assert (facts["source"]["shortest"], facts["source"]["longest"]) == (min(counts), max(counts))
        assert facts["target"]["tokens"] == target_tokens
    assert choose_unit(None).name == "words"
    assert choose_unit(None, tmp_path / "m.model").name == "subwords"


def test_each_side_has_its_own_subword_model(tmp_path):
    lines_of = {"source": ["der kleine Hund läuft", "ein Hund"] * 30, "target": ["a small dog runs", "a dog"] * 30}
    models = {}
    for side, text in lines_of.items():
        models[side] = Subwords.learn(text, Subword(vocabulary=30), side)
        models[side].save(tmp_path / f"{side}.model")
    files = {side: write(tmp_path / side, text) for side, text in lines_of.items()}
    unit = choose_unit(None, tmp_path / "source.model", tmp_path / "target.model")
    kept = cap(tmp_path / "out", parallel_text(**files), unit, 100)["statistics"]["parts"]["kept"]
    for side, text in lines_of.items():
        of_models = {name: sum(map(len, model.encode(text))) for name, model in models.items()}
        assert kept[side]["tokens"] == of_models[side]
        assert of_models["source"] != of_models["target"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((None, None, Path("m")), "a subword model is given, but lengths are in words"),
        (("subwords", None, Path("m")), "lengths in subwords need the subword model"),
        (("words", Path("m"), None), "a subword model is given, but lengths are in words"),
        (("subwords", Path("nowhere.model"), None), "subword model does not exist"),
    ],
)
def test_units_that_do_not_go_together(options, what):
    with pytest.raises(UserError, match=what):
        choose_unit(*options)


@pytest.mark.parametrize(
    "files", [{}, {"source": "a"}, {"source": "a", "tsv": "b"}, {"tsv": "a", "documents": "b"}, {"documents": "a"}]
)
def test_forms_of_a_parallel_text(files):
    with pytest.raises(UserError, match="two aligned files or one TSV file; got "):
        parallel_text(**files)


def test_a_pipe_cannot_be_split(tmp_path, corpus):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"--source is read more than once, and a pipe cannot be .*pipe\); name a file"):
        length_split(tmp_path / "out", parallel_text(tmp_path / "pipe", corpus["target"]), WORDS)


def test_a_file_that_changes_meanwhile(tmp_path, corpus):
    text = parallel_text(**corpus)
    read = text.pairs

    def and_change(doing):
        yield from read(doing)
        if doing == "counting":
            write(corpus["source"], lines(corpus["source"])[::-1])
            os.utime(corpus["source"], ns=(0, 0))

    text.pairs = and_change
    with pytest.raises(UserError, match="an input file changed while it was being split"):
        length_split(tmp_path / "out", text, WORDS)
    assert not (tmp_path / "out").exists()


def run(*arguments):
    return CliRunner().invoke(main, ["condition", *map(str, arguments)])


def test_length_split_on_the_command_line(tmp_path, corpus):
    call = ["length-split", "--source", corpus["source"], "--target", corpus["target"], "--out", tmp_path / "out"]
    done = run(*call)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'out'}\n"
    told = [line.split() for line in done.stderr.split("\n")]
    assert "lengths in words" in done.stderr
    assert ["short", "50", "source", "150", "3.00", "1", "5"] in told
    assert ["target", "200", "4.00", "2", "6"] in told
    again = run(*call)
    assert (again.exit_code, again.stdout) == (2, "")
    assert "the output exists and is not overwritten" in again.stderr


def test_cap_on_the_command_line_from_tsv_with_odd_lines(tmp_path):
    tsv = tmp_path / "x.tsv"
    tsv.write_bytes(b"\xef\xbb\xbfa b\tc\td1\r\n\tx\na b c d\te\td2\n" + "a\u2028b\u0085\tc\n".encode())
    done = run("cap", "--tsv", tsv, "--max-length", 2, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "1 of 4 lines are empty on one side at least; they are kept" in done.stderr
    assert "1 lines end in CRLF; the CR is removed" in done.stderr
    assert f"{tsv}: the byte order mark at its start is removed" in done.stderr
    assert "1 of 4 pairs have a side of more than 2 and are dropped" in done.stderr
    assert "nearly every line of the target is a single word" in done.stderr
    assert lines(tmp_path / "out" / "capped.source") == ["a b", "", "a\u2028b\u0085"]
    assert lines(tmp_path / "out" / "capped.lines") == ["1", "2", "4"]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    facts = manifest["statistics"]
    assert (facts["read"], facts["blank"], facts["carriage_returns_removed"]) == (4, 1, 1)


def test_blank_lines_are_no_words_between_blanks(tmp_path):
    source, target = write(tmp_path / "s", ["a b"] * 20), write(tmp_path / "t", ["c", ""] * 10)
    done = run("cap", "--source", source, "--target", target, "--max-length", 2, "--out", tmp_path / "out")
    [told] = [line for line in done.stderr.split("\n") if "single word" in line]
    assert "target" in told


@pytest.mark.parametrize("command", [["length-split"], ["cap", "--max-length", "3"], ["join"]])
def test_faulty_text_leaves_nothing(tmp_path, corpus, command):
    write(corpus["target"], lines(corpus["target"])[:-1])
    files = ["--source", corpus["source"], "--target", corpus["target"]]
    done = run(*command, *files, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.split("\n")[-2].startswith("error: different line counts: ")
    assert not (tmp_path / "out").exists()


@needs(MANPAGES.name)
def test_a_real_corpus(tmp_path):
    text = parallel_text(MANPAGES / "test.en", MANPAGES / "test.de")
    parts = length_split(tmp_path / "out", text, WORDS, 5)["statistics"]["parts"]
    source = lines(MANPAGES / "test.en")
    total, longest = sum(len(line.split()) for line in source), max(len(line.split()) for line in source)
    assert sum(facts["pairs"] for facts in parts.values()) == len(source)
    assert all(abs(facts["source"]["tokens"] - total / 5) <= longest for facts in parts.values())
    bounds = [(facts["source"]["shortest"], facts["source"]["longest"]) for facts in parts.values()]
    assert all(before[1] <= after[0] for before, after in pairwise(bounds))


@pytest.mark.parametrize("command", [["length-split", "--parts", 2], ["cap", "--max-length", 20]])
def test_words_of_text_without_blanks_are_refused(tmp_path, command):
    source = write(tmp_path / "s", ["The cat sat on the mat.", "It is warm.", "Yes.", "No."])
    target = write(tmp_path / "t", ["猫はマットの上に座った。", "暖かいです。", "はい。", "いいえ。"])
    call = [*command, "--source", source, "--target", target, "--out", tmp_path / "out"]
    refused = run(*call)
    assert refused.exit_code == 2
    assert "the target is Japanese without spaces between words, which cannot be counted (--unit)" in refused.output
    assert "choose --unit characters, or subwords with --subword-model" in refused.output
    assert not (tmp_path / "out").exists()
    assert run(*call, "--unit", "characters").exit_code == 0
