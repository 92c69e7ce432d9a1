"""`posnmt condition join`: what is joined with what, at the ends of documents, and what is said."""

import json
from itertools import groupby

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.cli.main import main
from posnmt.corpora.conditions.join import join
from posnmt.corpora.conditions.text import parallel_text


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def lines(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def texts(folder, ids):
    """A parallel text of as many pairs as ids, and the ids as a file."""
    return {
        "source": write(folder / "s", [f"s{n} x" for n in range(1, len(ids) + 1)]),
        "target": write(folder / "t", [f"t{n}" for n in range(1, len(ids) + 1)]),
        "documents": write(folder / "d", ids),
    }


IDS = ["a 1", "a 2", "a 3", "b\t1", "c 1", "c 2", "a 4", "a 5"]


def test_two_by_two_within_documents(tmp_path):
    manifest = join(tmp_path / "out", parallel_text(**texts(tmp_path, IDS)))
    assert lines(tmp_path / "out" / "joined.source") == ["s1 x s2 x", "s3 x", "s4 x", "s5 x s6 x", "s7 x s8 x"]
    assert lines(tmp_path / "out" / "joined.target") == ["t1 t2", "t3", "t4", "t5 t6", "t7 t8"]
    assert lines(tmp_path / "out" / "joined.lines") == ["1 2", "3", "4", "5 6", "7 8"]
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    facts = {"documents": 4, "without_document": 0, "written": 5, "rest_groups": 2, "rest_pairs": 2}
    assert manifest["statistics"] == {"read": 8, "blank": 0, "carriage_returns_removed": 0, **facts}


def test_rest_dropped_and_separators(tmp_path):
    text = parallel_text(**texts(tmp_path, IDS))
    manifest = join(tmp_path / "out", text, source_separator="", target_separator=" <sep> ", drop_rest=True)
    assert lines(tmp_path / "out" / "joined.source") == ["s1 xs2 x", "s5 xs6 x", "s7 xs8 x"]
    assert lines(tmp_path / "out" / "joined.target") == ["t1 <sep> t2", "t5 <sep> t6", "t7 <sep> t8"]
    assert lines(tmp_path / "out" / "joined.lines") == ["1 2", "5 6", "7 8"]
    assert (manifest["statistics"]["written"], manifest["statistics"]["rest_pairs"]) == (3, 2)
    assert manifest["parameters"]["rest"] == "drop"


def test_without_ids_the_text_is_one_document(tmp_path):
    files = texts(tmp_path, IDS)
    del files["documents"]
    manifest = join(tmp_path / "out", parallel_text(**files), sentences=5)
    assert lines(tmp_path / "out" / "joined.lines") == ["1 2 3 4 5", "6 7 8"]
    assert manifest["statistics"]["documents"] == 0
    assert manifest["statistics"]["rest_pairs"] == 3


def test_more_sentences_than_a_document_has_join_it_whole(tmp_path):
    join(tmp_path / "out", parallel_text(**texts(tmp_path, IDS)), sentences=10**9)
    assert lines(tmp_path / "out" / "joined.lines") == ["1 2 3", "4", "5 6", "7 8"]


def test_blank_lines_add_nothing_and_stay_counted(tmp_path):
    source = write(tmp_path / "s", ["a", "", "", "b", "", " "])
    target = write(tmp_path / "t", ["a", "x", "y", "", "", ""])
    manifest = join(tmp_path / "out", parallel_text(source, target))
    assert lines(tmp_path / "out" / "joined.source") == ["a", "b", ""]
    assert lines(tmp_path / "out" / "joined.target") == ["a x", "y", ""]
    assert lines(tmp_path / "out" / "joined.lines") == ["1 2", "3 4", "5 6"]
    assert manifest["statistics"]["blank"] == 5


@given(st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=40), st.integers(2, 5))
def test_nothing_is_lost_and_no_document_mixed(tmp_path_factory, ids, sentences):
    folder = tmp_path_factory.mktemp("join")
    manifest = join(folder / "out", parallel_text(**texts(folder, ids)), sentences)
    groups = [[int(number) for number in line.split()] for line in lines(folder / "out" / "joined.lines")]
    assert [number for group in groups for number in group] == list(range(1, len(ids) + 1))
    for group, source in zip(groups, lines(folder / "out" / "joined.source"), strict=True):
        assert len({ids[number - 1] for number in group}) == 1
        assert source == " ".join(f"s{number} x" for number in group)
    runs = [len(list(members)) for _, members in groupby(ids)]
    assert sum(len(group) < sentences for group in groups) == sum(run % sentences > 0 for run in runs)
    assert manifest["statistics"]["rest_pairs"] == sum(run % sentences for run in runs)
    assert manifest["statistics"]["without_document"] == ids.count("")


def test_nothing_left_to_write(tmp_path):
    with pytest.raises(UserError, match="no document has 4 pairs, and shorter groups are dropped"):
        join(tmp_path / "out", parallel_text(**texts(tmp_path, IDS)), sentences=4, drop_rest=True)
    assert not (tmp_path / "out").exists()


def test_a_separator_with_a_line_feed(tmp_path):
    with pytest.raises(UserError, match=r"a separator may not contain a line feed, .*--target-separator"):
        join(tmp_path / "out", parallel_text(**texts(tmp_path, IDS)), target_separator="\n")


def test_the_command_line(tmp_path):
    files = [f"--{part}={path}" for part, path in texts(tmp_path, [*IDS, ""]).items()]
    call = ["condition", "join", *files, "--source-separator", "", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'out'}\n"
    assert done.stderr.split("\n") == [
        "9 pairs became 6, joined by 2; documents: 4",
        "too few for a group at the ends of documents: 3 of 9 pairs; kept, in shorter groups: 3",
        "without document id, and joined among themselves: 1 of 9 pairs",
        "",
    ]
    assert lines(tmp_path / "out" / "joined.source")[0] == "s1 xs2 x"
    dropped = CliRunner().invoke(main, [*call[:-1], str(tmp_path / "dropped"), "--rest", "drop"])
    assert "too few for a group at the ends of documents: 3 of 9 pairs; dropped" in dropped.stderr
    assert lines(tmp_path / "dropped" / "joined.lines") == ["1 2", "5 6", "7 8"]


def test_a_tsv_names_its_documents(tmp_path):
    tsv = write(tmp_path / "x.tsv", ["a\tb\tone", "c\td\tone", "e\tf\ttwo"])
    done = CliRunner().invoke(main, ["condition", "join", "--tsv", str(tsv), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert lines(tmp_path / "out" / "joined.target") == ["b d", "f"]


def test_separators_follow_the_script(tmp_path):
    english = write(tmp_path / "en", ["The cat sat.", "It is warm."])
    files = {
        "Japanese": ["猫が座った。", "暖かいです。"],
        "Thai": ["แมวนั่งอยู่", "วันนี้อากาศดี"],
        "segmented": ["猫 が 座っ た 。"] * 2,
    }
    separators = {"Japanese": "", "Thai": " ", "segmented": " "}
    for name, text in files.items():
        manifest = join(tmp_path / name, parallel_text(english, write(tmp_path / "target", text)))
        assert lines(tmp_path / name / "joined.source") == ["The cat sat. It is warm."]
        assert lines(tmp_path / name / "joined.target") == [separators[name].join(text)]
        assert manifest["parameters"]["source_separator"] == " "
        assert manifest["parameters"]["target_separator"] == separators[name]
    write(tmp_path / "target", files["Japanese"])
    call = ["condition", "join", "--source", str(english), "--target", str(tmp_path / "target"), "--out"]
    done = CliRunner().invoke(main, [*call, str(tmp_path / "chosen")])
    assert "the target has no spaces between words: its sentences are joined without one" in done.output
    done = CliRunner().invoke(main, [*call, str(tmp_path / "blank"), "--target-separator", " "])
    assert lines(tmp_path / "blank" / "joined.target") == ["猫が座った。 暖かいです。"]
    assert "no blanks" not in done.output
