"""The corpus of `posnmt condition artificial`: disjoint sets, exact files, a manifest that says what they are."""

import json
from statistics import fmean

import pytest

from posnmt.base.errors import UserError
from posnmt.corpora.artificial.lexicon import make_lexicon
from posnmt.corpora.artificial.pairs import command
from tests.support.artificial_reader import Reader
from tests.support.commands import run


def make(out, **options):
    return command(out, **{"train": 300, "dev": 40, "test": 60, "seed": 7, **options})


def test_command_writes_disjoint_sets_and_says_what_they_are(tmp_path):
    manifest = make(tmp_path / "out", min_length=3, max_length=6, test_max_length=20)
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["parameters"]["seed"] == 7
    reader, seen = Reader(make_lexicon()), set()
    for name, (count, low, high) in {
        "train": (300, 3, 6), "dev": (40, 3, 6), "test": (60, 3, 20), "test-long": (60, 7, 20),
    }.items():  # fmt: skip
        sides = [
            (tmp_path / "out" / f"{name}.{side}").read_text("utf-8").split("\n")
            for side in ("source", "target", "align")
        ]
        rows = list(zip(*sides, strict=True))
        assert rows.pop() == ("", "", "")
        assert len(rows) == count
        lengths = [len(source.split(" ")) for source, _, _ in rows]
        assert low <= min(lengths) <= max(lengths) <= high
        pairs = [reader.translate(source) for source, _, _ in rows]
        assert [(pair.source, pair.target, pair.pharaoh) for pair in pairs] == rows
        assert len({*seen, *sides[0][:-1]}) == len(seen) + count, "a source sentence is in two sets"
        seen.update(sides[0][:-1])
        facts = manifest["statistics"][name]
        assert facts["source_length"] == {
            "minimum": min(lengths),
            "mean": round(fmean(lengths), 3),
            "maximum": max(lengths),
        }
        moved = [place for pair in pairs for place in pair.displacements]
        assert facts["displacement"]["mean"] == round(fmean(moved), 3)
        assert facts["displacement"]["maximum"] == max(moved)
    assert len((tmp_path / "out" / "lexicon.tsv").read_text("utf-8").split("\n")) == 120 + 1


def test_the_size_of_the_lexicon_on_the_command_line(tmp_path):
    sizes = ["--train", 9, "--dev", 9, "--test", 9]
    run("condition", "artificial", "--out", tmp_path / "out", *sizes, "--lexicon", 50)
    assert len((tmp_path / "out" / "lexicon.tsv").read_text("utf-8").splitlines()) == 50
    assert json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))["parameters"]["lexicon"] == 50


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path):
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        make(tmp_path / name, seed=seed)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        assert (path.read_bytes() == (tmp_path / "c" / path.name).read_bytes()) == (path.name == "lexicon.tsv")


def test_test_sets_do_not_depend_on_the_size_of_train(tmp_path):
    make(tmp_path / "a", train=100)
    make(tmp_path / "b", train=400)
    for name in ("dev.source", "test.source", "test-long.source"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_no_long_test_set_without_longer_lengths(tmp_path):
    manifest = make(tmp_path / "out", max_length=9, test_max_length=9)
    assert list(manifest["statistics"]) == ["train", "dev", "test"]
    with pytest.raises(UserError, match="longest test length, 8, is below the longest training length, 9"):
        make(tmp_path / "other", max_length=9, test_max_length=8)
    assert not (tmp_path / "other").exists()
