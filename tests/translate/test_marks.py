"""`posnmt translate --to`: the mark of a target language before each line, as in training."""

from __future__ import annotations

import json
import re
import shutil
import warnings

import pytest

import posnmt
from posnmt.base.errors import UserError
from posnmt.data.marks import mark_for, mark_of
from posnmt.run.run import Run
from tests.support import corpus
from tests.support.commands import refused, run


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("<2de> a b", "<2de>"), (" >>pt_BR<<  a", ">>pt_BR<<"), ("<2zh-Hant> a", "<2zh-Hant>"), ("<2de>", None),
        ("<2de>a", None), ("<b> a", None), (">>> a = 1", None), ("a <2de> b", None), ("<2nd-floor-x> a", None),
    ],
)  # fmt: skip
def test_what_is_a_mark(line, mark):
    assert mark_of(line) == mark


def test_the_mark_of_a_language():
    marks = ["<2de>", ">>pt_BR<<", "<2sv-2x2>"]
    assert [mark_for(code, marks) for code in ("DE", "pt_br", "sv-2x2")] == marks
    long = [">>deu<<", ">>cmn_Hans<<", ">>cmn_Hant<<", ">>pt<<", ">>pt_BR<<"]
    assert [mark_for(code, long) for code in ("de", "DE-AT", "pt")] == [">>deu<<", ">>deu<<", ">>pt<<"]
    assert [mark_for(mark, long) for mark in long] == long
    with pytest.raises(UserError, match=r"there are: deu, cmn_hans, cmn_hant"):
        mark_for("zh", long)
    with pytest.raises(UserError, match=r"no target language of this run is called 'fr' .*there are: de, pt_br"):
        mark_for("fr", marks)
    with pytest.raises(UserError, match=r"names no language tags of its training text .*\(--to\)"):
        mark_for("de", [])


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A run for two languages, and lines: one is blank, and one is far longer than those of training."""
    folder = tmp_path_factory.mktemp("many")
    config = corpus.make(folder, 80, train={"steps": 3, "evaluate_every": 3})
    for split in ("train", "dev"):
        path = folder / "corpus" / f"{split}.source"
        lines = path.read_text().splitlines()
        path.write_text("".join(f"<2{'de' if n % 2 else 'fr'}> {line}\n" for n, line in enumerate(lines)))
    run("train", config, "--out", folder / "run")
    known = (folder / "corpus" / "test.source").read_text().splitlines()
    lines = [*known[:3], "", ", ".join(known[3:9])]
    (folder / "plain").write_text("".join(f"{line}\n" for line in lines))
    (folder / "marked").write_text("".join(f"<2fr> {line}\n" if line else "\n" for line in lines))
    return folder


def hypotheses(*arguments):
    out, _ = run("translate", *arguments, "--format", "jsonl")
    return [json.loads(line)["hypotheses"] for line in out.splitlines()]


def test_a_run_records_its_marks(many):
    assert Run.open(many / "run").marks == {"<2de>": 40, "<2fr>": 40}


def test_lines_are_translated_as_with_their_mark(many):
    wanted = hypotheses(many / "run", "--input", many / "marked", "--split", "off")
    assert hypotheses(many / "run", "--input", many / "plain", "--split", "off", "--to", "fr") == wanted
    assert hypotheses(many / "run", "--input", many / "plain", "--split", "off") != wanted
    assert wanted[3] == []


def test_lines_without_a_tag_are_told(many):
    """At each door, and with CTranslate2; not the lines that have one, nor a model of one language."""
    begin = r"4 of 5 lines begin with no language tag of the training text"
    for engine in ("torch", "ctranslate2"):
        _, said = run("translate", many / "run", "--input", many / "plain", "--engine", engine)
        assert re.search(rf"warning: {begin}; choose the target language with --to \(lines 1, 2, 3, 5\)", said)
        for options in (["--input", many / "marked"], ["--input", many / "plain", "--to", "fr"]):
            assert "language tag" not in run("translate", many / "run", *options, "--engine", engine)[1]
    _, said = run("score", many / "run", "--source", many / "plain", "--target", many / "plain")
    assert re.search(rf"warning: {begin}; choose the target language with --to", said)
    (many / "page.html").write_text(f"<p>{(many / 'plain').read_text().splitlines()[0]}</p>")
    page = ("translate", many / "run", "--input", many / "page.html")
    assert "1 translations are of texts without a language tag" in run(*page, "--output", many / "page.fr.html")[1]
    assert "language tag" not in run(*page, "--to", "fr", "--output", many / "page.to.html")[1]
    lines = (many / "plain").read_text().splitlines()
    with pytest.warns(posnmt.TranslationWarning, match=rf"{begin}; choose the target language with `to`"):
        posnmt.load(many / "run").translate(lines)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posnmt.load(many / "run", to="fr").translate(lines)
    assert not [each for each in caught if "language tag" in str(each.message)]


def test_scores_and_python_know_the_language(many):
    lines = (many / "plain").read_text().splitlines()
    marked = [line and f"<2fr> {line}" for line in lines]
    model, plain = posnmt.load(many / "run", to="FR"), posnmt.load(many / "run")
    assert model.translate(lines, split="off") == plain.translate(marked, split="off")
    pairs = [(line, "a b") for line in lines if line]
    expected = plain.score([(f"<2fr> {source}", target) for source, target in pairs])
    assert model.score(pairs) == expected != plain.score(pairs)
    for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (many / f"pairs.{side}").write_text("".join(f"{line}\n" for line in texts))
    files = ("--source", many / "pairs.source", "--target", many / "pairs.target")
    out, _ = run("score", many / "run", *files, "--to", "fr")
    assert out == "".join(f"{score:.6f}\n" for score in expected)
    with pytest.raises(UserError, match="no target language of this run is called 'sv'"):
        posnmt.load(many / "run", to="sv")


def test_each_part_of_a_line_has_the_mark(many):
    side = Run.open(many / "run").text().marked("<2fr>").source
    [mark] = side.subwords.encode(["<2fr>"])
    assert all(row[: len(mark)] == mark for row in side.encode(["a", "b c"]))
    assert side.encode(["", " ", "\u200b"]) == [[], [], []]
    [*_, long] = hypotheses(many / "run", "--input", many / "plain", "--to", "fr", "--split", "auto")
    assert long[0]["parts"] > 1


def test_a_language_without_a_mark_is_refused(many, tmp_path):
    lines = ("--input", many / "plain")
    [fault] = refused("translate", many / "run", *lines, "--to", "es")
    assert fault.startswith("error: no target language of this run is called 'es' (--to);")
    assert fault.endswith("there are: de, fr")
    other = shutil.copytree(many / "run", tmp_path / "run")
    record = json.loads((other / "record.json").read_text())
    (other / "record.json").write_text(json.dumps({**record, "marks": 1}))
    assert "record is damaged: marks" in refused("translate", other, *lines, "--to", "de")[0]
    del record["marks"]
    (other / "record.json").write_text(json.dumps(record))
    assert "names no language tags of its training text" in refused("translate", other, *lines, "--to", "de")[0]


def test_an_exported_model_has_the_marks(many, tmp_path):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    run("export", many / "run", "--format", "ctranslate2", "--out", tmp_path / "exported")
    wanted = [each and each[0]["text"] for each in hypotheses(tmp_path / "exported", "--input", many / "marked")]
    to = hypotheses(tmp_path / "exported", "--input", many / "plain", "--to", "fr", "--split", "off")
    assert [each and each[0]["text"] for each in to] == wanted
    assert "called 'es'" in refused("translate", tmp_path / "exported", "--input", many / "plain", "--to", "es")[0]


def test_a_server_has_a_model_for_each_language(many):
    pytest.importorskip("fastapi", reason="FastAPI is not installed (extra serve)")
    from tests.support.serving import serving

    folder = many / "run"
    languages = [f"--languages={code}=en-{code}" for code in ("de", "fr")]
    with serving(f"de={folder}", f"fr={folder}", *languages) as server:
        for code in ("de", "fr"):
            expected = run("translate", folder, "--input", many / "plain", "--to", code)[0].splitlines()
            text = (many / "plain").read_text().splitlines()
            assert (
                server.post("/v1/translate", {"text": text, "target": code})[1]["translations"][0]["text"]
                == expected[0]
            )
            answer = server.post("/translate", {"q": text, "source": "en", "target": code})[1]
            assert answer["translatedText"] == expected
    [fault] = refused("serve", folder, "--languages", "en-es")
    assert "no target language of this run is called 'es'" in fault
    assert "--languages" in fault
