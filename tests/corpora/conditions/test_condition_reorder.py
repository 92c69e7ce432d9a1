"""`posnmt condition reorder`: what it writes, the external command, and what it refuses."""

import json
import shlex
import sys

import pytest
from click.testing import CliRunner

from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.cli.main import main
from posnmt.corpora.artificial.pairs import generate
from posnmt.corpora.conditions.reorder.command import Parallel, Reordering, command, external
from posnmt.corpora.conditions.reorder.preorder import LONGEST, SHORTEST


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


@pytest.fixture
def corpus(tmp_path):
    """Files of 300 pairs with gold alignments, and a text to reorder."""
    pairs = list(generate(340, 3, 12, seed=1))
    sides = {"source": lambda pair: pair.source, "target": lambda pair: pair.target, "align": lambda pair: pair.pharaoh}
    files = {side: write(tmp_path / side, map(of, pairs[:300])) for side, of in sides.items()}
    text = [pair.source for pair in pairs[300:]]
    files["text"] = write(tmp_path / "text", [*text[:20], "", "  Rela \t dufo ", *text[20:]])
    return files


def make(out, corpus, display=None, **options):
    given = {"source": corpus["source"], "target": corpus["target"], "alignment": corpus["align"], **options}
    return command(out, Reordering(given.pop("apply", [f"test.source={corpus['text']}"]), **given), display)


def lines(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def program(code):
    """A shell command that runs Python on lines."""
    return f"{shlex.quote(sys.executable)} -c {shlex.quote('import sys; L = list(sys.stdin); ' + code)}"


REVERSE = program('print(*(" ".join(l.split()[::-1]) for l in L), sep="\\n")')


def test_learns_applies_and_measures(tmp_path, corpus, capsys):
    with Display() as display:
        manifest = make(tmp_path / "out", corpus, display=display, seed=4)
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "model.json", "test.source"]
    assert manifest == json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["condition"] == "reorder"
    assert manifest["parameters"]["seed"] == 4
    before, after = lines(corpus["text"]), lines(out / "test.source")
    assert [sorted(line.split()) for line in after] == [sorted(line.split()) for line in before]
    assert after[20:22] == ["", "Rela dufo"]
    facts = manifest["statistics"]
    assert (facts["pairs"], facts["blank_pairs"], facts["learned_from"]) == (300, 0, 270)
    assert facts["held_out"]["pairs"] == 30
    assert facts["held_out"]["tau_before"] < 0.6 < 0.8 < facts["held_out"]["tau_after"]
    changed = sum(old.split() != new.split() for old, new in zip(before, after, strict=True))
    assert facts["files"] == {"test.source": {"lines": 42, "changed": changed}}
    assert changed > 10
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "learning from 270 of 300 pairs" in captured.err
    assert "30 held-out pairs: Kendall's tau" in captured.err


@pytest.mark.slow
def test_same_seed_same_bytes(tmp_path, corpus):
    for name in "ab":
        make(tmp_path / name, corpus)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_model_reorders_later_as_it_did_at_once(tmp_path, corpus):
    apply = [f"test.source={corpus['text']}"]
    first = make(tmp_path / "first", corpus, passes=1)
    later = command(tmp_path / "later", Reordering(apply, model=tmp_path / "first" / "model.json"))
    assert lines(tmp_path / "later" / "test.source") == lines(tmp_path / "first" / "test.source")
    assert "held_out" not in later["statistics"]
    measured = make(tmp_path / "measured", corpus, model=tmp_path / "first" / "model.json")
    assert measured["statistics"]["held_out"] == first["statistics"]["held_out"]
    assert not (tmp_path / "measured" / "model.json").exists()


def test_held_out_sources_are_not_learned_from(tmp_path, corpus):
    for side in ("source", "target", "align"):
        write(corpus[side], lines(corpus[side])[:30] * 10)
    facts = make(tmp_path / "out", corpus)["statistics"]
    held_out = facts["held_out"]["pairs"]
    assert held_out == 30
    assert facts["learned_from"] % 10 == 0
    assert facts["learned_from"] < 300 - held_out


def test_pairs_with_a_blank_side_are_counted(tmp_path, corpus):
    write(corpus["source"], ["", *lines(corpus["source"])[1:]])
    write(corpus["align"], ["", *lines(corpus["align"])[1:]])
    assert make(tmp_path / "out", corpus, passes=1)["statistics"]["blank_pairs"] == 1


def test_another_program_reorders(tmp_path, corpus):
    # With a number on each word no word comes twice in a line, and a reversed line has the opposite tau.
    for side in ("source", "text"):
        rows = [" ".join(f"{word}{n}" for n, word in enumerate(line.split())) for line in lines(corpus[side])]
        write(corpus[side], rows)
    manifest = make(tmp_path / "out", corpus, program=REVERSE)
    assert lines(tmp_path / "out" / "test.source") == [" ".join(line.split()[::-1]) for line in lines(corpus["text"])]
    facts = manifest["statistics"]["held_out"]
    assert facts["tau_after"] == -facts["tau_before"]
    assert facts["changed"] == 1
    alone = command(tmp_path / "alone", Reordering([f"x={corpus['text']}"], program=REVERSE))
    assert alone["statistics"].keys() == {"files"}


def test_repeated_words_keep_their_order():
    assert external("cat")([["a", "b", "a"], [], ["c"]], "text") == [[0, 1, 2], [], [0]]
    assert external(REVERSE)([["a", "b", "a", "c"]], "text") == [[3, 0, 1, 2]]


def test_sentences_that_can_be_reordered_in_time_are_learned_from():
    lengths = [1, SHORTEST, 3, LONGEST, LONGEST + 1, 4]
    sources = [[f"{length}.{word}" for word in range(length)] for length in lengths]
    parallel = Parallel(sources, [frozenset()] * len(sources), blank=0, held_out=[2])
    assert [len(sources[row]) for row in parallel.to_learn()] == [SHORTEST, LONGEST, 4]


@pytest.mark.parametrize(
    ("code", "where", "what"),
    [
        ("print(*L[1:], sep='', end='')", "text", "the command wrote 41 lines for 42"),
        ("print(*L, '', sep='')", "text", "the command wrote 43 lines for 42"),
        ("L[4] = L[4].split(' ', 1)[1]; print(*L, sep='', end='')", "text:5", "changed the tokens .*: '.*' is missing"),
        ("L[6] = 'new ' + L[6]; print(*L, sep='', end='')", "text:7", "'new' is new"),
        ("L[0] = L[0].upper(); print(*L, sep='', end='')", "text:1", "is missing"),
        ("sys.stdout.buffer.write(b'\\xff' + ''.join(L).encode())", "--command", "not valid UTF-8"),
        ("sys.exit('no dictionary')", "--command", "ended with status 1: no dictionary"),
    ],
)  # fmt: skip
def test_a_program_that_breaks_the_text_is_refused(tmp_path, corpus, code, where, what):
    with pytest.raises(UserError, match=what) as caught:
        command(tmp_path / "out", Reordering([f"x={corpus['text']}"], program=program(code)))
    assert f"{where})" in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["test.source", "model.json", "pairs.align", "manifest.json"])
def test_nothing_is_written_over(tmp_path, corpus, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(UserError, match="exists and is not overwritten"):
        make(tmp_path / "out", corpus)
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"target": None}, "(--source, --target)"),
        ({"source": None, "target": None}, "alignments need their parallel text"),
        ({"source": None, "target": None, "alignment": None}, "nothing to learn from"),
        ({"model": "m", "program": "cat"}, "a model and a command cannot be combined"),
        ({"model": "nowhere.json"}, "the pre-ordering model does not exist"),
        ({"apply": ["x"]}, "written NAME=FILE; got 'x'"),
        ({"apply": ["x="]}, "written NAME=FILE; got 'x='"),
        ({"apply": ["a/b=c"]}, "'a/b' cannot name a reordered text"),
        ({"apply": ["model.json=c"]}, "'model.json' cannot name"),
        ({"apply": ["x=nowhere"]}, "--apply does not exist"),
        ({"apply": ["x=a", "x=b"]}, "two texts are called 'x'"),
        ({"source": "nowhere"}, "--source does not exist"),
    ],
)
def test_what_does_not_go_together(tmp_path, corpus, options, what):
    with pytest.raises(UserError, match=what):
        make(tmp_path / "out", corpus, **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("side", "change", "what"),
    [
        ("target", lambda rows: rows[:-1], r"different line counts: .*source has 300, .*target has 299"),
        ("align", lambda rows: rows[:-1], "299 lines of alignments for 300 sentence pairs"),
        ("align", lambda rows: [*rows[:6], "0-0 99-0", *rows[7:]], r"outside the source sentence.*align:7\)"),
        ("align", lambda rows: ["" for _ in rows], "no order to learn"),
        ("source", lambda rows: [row.replace(" ", "") for row in rows], "nearly every line of the source is a single"),
        ("target", lambda rows: [row.replace(" ", "") for row in rows], "nearly every line of the target is a single"),
    ],
)
def test_texts_that_do_not_fit(tmp_path, corpus, side, change, what):
    write(corpus[side], change(lines(corpus[side])))
    with pytest.raises(UserError, match=what):
        make(tmp_path / "out", corpus)
    assert not (tmp_path / "out").exists()


def test_too_few_pairs(tmp_path, corpus):
    for side in ("source", "target", "align"):
        write(corpus[side], lines(corpus[side])[:19])
    with pytest.raises(UserError, match="19 sentence pairs are too few; at least 20 are needed"):
        make(tmp_path / "out", corpus)


def test_an_unsegmented_text_to_reorder_is_said(tmp_path, corpus, capsys):
    write(corpus["text"], ["これは長い文です。"] * 5)
    command(tmp_path / "out", Reordering([f"x={corpus['text']}"], program="cat"))
    assert "nearly every line" in capsys.readouterr().err
    assert lines(tmp_path / "out" / "x") == ["これは長い文です。"] * 5
    write(corpus["text"], ["これは長い文 です。ほんとうに"] * 5)
    command(tmp_path / "other", Reordering([f"x={corpus['text']}"], program="cat"))
    assert "is Japanese without spaces between words: separate words" in capsys.readouterr().err


def test_carriage_returns_are_removed_and_said(tmp_path, corpus, capsys):
    for side in ("source", "text", "align"):
        path = corpus[side]
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    make(tmp_path / "out", corpus, passes=1)
    told = capsys.readouterr().err
    assert f"300 lines of {corpus['source']} end in CRLF; the carriage return is removed" in told
    assert f"42 lines of {corpus['text']} end in CRLF" in told
    assert b"\r" not in (tmp_path / "out" / "test.source").read_bytes()


def test_the_command_line(tmp_path, corpus):
    arguments = ["--source", corpus["source"], "--target", corpus["target"], "--alignment", corpus["align"]]
    arguments += ["--apply", f"test={corpus['text']}", "--apply", f"train={corpus['source']}"]
    call = ["condition", "reorder", *map(str, arguments), "--out", str(tmp_path / "out"), "--passes", "1"]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'out'}\n"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"test", "train", "model.json", "manifest.json"}
    again = CliRunner().invoke(main, call)
    assert again.exit_code == 2
    assert again.stdout == ""
    assert again.stderr.count("error: the output exists and is not overwritten") == 4
