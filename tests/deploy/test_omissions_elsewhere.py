"""Lines of several sentences at the other doors: the three interfaces of a server, and documents."""

from __future__ import annotations

import shutil

import pytest
from safetensors.torch import load_file, save_file

import posnmt
from posnmt.data.subword import EOS
from posnmt.translate.omissions import intervals
from tests.support import single
from tests.support.commands import run
from tests.support.serving import Serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of single sentences; `silent` is the same, but writes nothing."""
    folder = single.learned(tmp_path_factory)
    shutil.copytree(folder / "run", folder / "silent")
    weights = load_file(folder / "silent" / "model.safetensors")
    weights["output.bias"][EOS] += 100.0
    save_file(weights, folder / "silent" / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def served(folder):
    server = Serving(folder / "run")
    yield server
    server.end()


@pytest.fixture(scope="module")
def line(folder):
    known = single.sentences(folder)
    return f"{known[2]} {known[5]}"


def test_a_server_translates_as_the_command_line_does(served, folder, line):
    """Without an option, and with each of `split` and `complete`, by every interface that has them."""
    [apart], [whole] = (
        posnmt.load(folder / "run").translate([line], split=split, complete="off") for split in ("sentences", "off")
    )
    assert len(intervals(apart, "de")) == 2 > len(intervals(whole, "de"))

    def own(**more):
        [text] = served.post("/v1/translate", {"text": line, **more})[1]["translations"]
        return text["text"], text["lines"][0]

    text, shown = own()
    assert (text, shown["in_sentences"], shown["mended"], shown["omitted"]) == (apart, True, False, [])
    text, shown = own(split="huge", complete="warn")
    assert (text, shown["in_sentences"], shown["mended"], len(shown["omitted"])) == (whole, False, False, 1)
    [lost] = shown["omitted"]
    assert line[lost["start"] : lost["end"]] == lost["text"]
    text, shown = own(split="huge")
    assert (text, shown["in_sentences"], shown["mended"], shown["omitted"]) == (apart, False, True, [])
    text, shown = own(split="off")
    assert (text, len(shown["omitted"])) == (whole, 1)
    assert (own(split="off", complete="off")[1]["omitted"], own(split="off", complete="mend")[0]) == ([], apart)

    query = {"text": line, "source_lang": "EN", "target_lang": "DE"}
    _, answer, headers = served.post("/v2/translate", query)
    assert (answer["translations"][0]["text"], headers["X-Posnmt-Warning"]) == (apart, None)
    _, answer, headers = served.post("/v2/translate", {**query, "split_sentences": "0"})
    assert answer["translations"][0]["text"] == whole
    assert "1 of 1 lines contain sentences that their translations leave out" in headers["X-Posnmt-Warning"]
    _, answer, _ = served.post("/translate", {"q": line, "source": "en", "target": "de"})
    assert answer["translatedText"] == apart
    assert served.post("/v1/translate", {"text": line, "complete": "all"})[0] == 400


def test_a_server_has_the_settings_that_it_is_started_with(folder, line):
    [whole] = posnmt.load(folder / "run").translate([line], split="off", complete="off")
    server = Serving(folder / "run", "--split", "off", "--complete", "off")
    try:
        [text] = server.post("/v1/translate", {"text": line})[1]["translations"]
        [warned] = server.post("/v1/translate", {"text": line, "complete": "warn"})[1]["translations"]
    finally:
        server.end()
    assert (text["text"], text["lines"][0]["omitted"]) == (whole, [])
    assert len(warned["lines"][0]["omitted"]) == 1


def test_a_server_says_how_many_sentences_the_training_lines_had(served, folder):
    [model] = served.get("/v1/models")[1]
    counts = posnmt.Run.open(folder / "run").sentences_per_line
    assert model["sentences_per_line"] == counts == {"source": [1.0], "target": [1.0]}


def test_a_document_names_the_lines_of_what_is_left_out(folder, line, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(f"<p>{line}</p>\n<p>{single.sentences(folder)[0]}</p>\n")
    out, err = run("translate", folder / "run", "--input", page, "--languages", "en-de")
    assert len(intervals(out.split("</p>")[0].removeprefix("<p>"), "de")) == 2
    assert "leave out" not in err
    _, err = run("translate", folder / "silent", "--input", page, "--languages", "en-de", "--complete", "off")
    assert f"warning: 3 translations are empty ({page}, lines 1, 1, 2)" in err
    assert "leave out" not in err
