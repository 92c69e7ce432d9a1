"""`posnmt show`: the page of two runs end to end, what is left out is said, and mistakes are one line."""

import csv
import re
import shutil

import numpy as np
import pytest
import yaml

import posnmt
from posnmt.evaluation.show.sections import marks
from posnmt.model.registry import build_model
from posnmt.model.weights import save_model
from posnmt.run.run import Run
from tests.support import commands
from tests.support.report_case import without_figures


@pytest.fixture(scope="module")
def shown(runs, tmp_path_factory):
    """The folder that the command writes of both runs, and what it prints."""
    out = tmp_path_factory.mktemp("out") / "show"
    printed, said = commands.run(
        "show", runs / "counting", f"other={runs / 'recurrent'}", "--out", out, "--length", 40, "--lines", 6
    )
    assert printed == f"{out / 'report.html'}\n"
    return out, said


@pytest.fixture(scope="module")
def page(shown):
    return (shown[0] / "report.html").read_text(encoding="utf-8")


def section(page, name):
    """The part of the page below one heading."""
    return page.split(f'<h2 id="{name}">')[1].split("<h2 ")[0]


def rows_of(folder, name):
    """The cells of a figure's CSV: (row, column) → value."""
    with (folder / "figures" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return {(row["row"], row["column"]): float(row["mean"]) for row in csv.DictReader(file) if row["mean"]}


def test_the_page_has_the_sections_of_what_the_runs_have(page):
    found = re.findall(r'<h2 id="([^"]+)"', page)
    assert found == [
        "words", "attention-by-distance", "logits", "counted", "similarity", "penalties", "moved", "vectors", "made",
    ]  # fmt: skip
    assert "other" in section(page, "moved")
    assert "counting" not in re.sub("<svg.*?</svg>", "", section(page, "moved"))
    assert "other" not in re.sub("<svg.*?</svg>", "", section(page, "penalties"))
    assert "the dev text of counting" in page
    assert "The first 6 lines were taken; 14 others were not looked at" in page
    assert "://" not in page.split("<script")[0], "nothing is loaded; the script names the namespace of SVG"


def test_every_figure_is_a_file_in_three_formats_and_has_its_data(shown, page):
    folder = shown[0] / "figures"
    names = re.findall(r'<figure data-name="([^"]+)"', page)
    assert len(names) == len(set(names)) > 20
    assert {path.name for path in folder.iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "csv")
    }
    for name in names:
        assert f'<table data-name="{name}"' in page or f"<code>figures/{name}.csv</code>" in page
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    described = re.findall(r'<svg[^>]*aria-label="([^"]+)"', page)
    assert len(described) == len(names)
    assert all(". Its data are in " in each for each in described)


def test_figures_draw_the_values_of_the_api(runs, shown):
    dev = [
        (runs / "corpus" / f"dev.{side}").read_text(encoding="utf-8").splitlines()[:6] for side in ("source", "target")
    ]
    counting, other = (posnmt.load(runs / name).positions(*dev, length=40) for name in ("counting", "recurrent"))
    cells = rows_of(shown[0], "attention-encoder")
    for name, positions in (("counting", counting), ("other", other)):
        each = positions.encoder.attention
        for place, distance in enumerate(each.distances.tolist()):
            expected = np.nanmean(each.values[..., place])
            assert abs(distance) >= 40 or cells[str(distance), name] == pytest.approx(expected, abs=1e-6)
    bias = rows_of(shown[0], "bias-encoder-2")
    # 2 heads: the slopes are 2^-4 and 2^-8
    assert {cell: value for cell, value in bias.items() if "head 2" in cell[1]} == {
        (str(distance), "head 2"): pytest.approx(-abs(distance) / 256) for distance in range(-39, 40)
    }
    moved = rows_of(shown[0], "moved-encoder")
    each = other.encoder.moved
    assert [moved[str(distance), "other"] for distance in each.distances if abs(distance) < 40] == pytest.approx(
        each.change[np.abs(each.distances) < 40].tolist()
    )
    heat = rows_of(shown[0], "attention-decoder-heads-1")
    each = counting.decoder.attention
    assert heat["-1", "L1 H2"] == pytest.approx(each.values[0, 1, each.distances.tolist().index(-1)])
    cosine = rows_of(shown[0], "similarity-encoder-1")
    assert cosine["3", "7"] == pytest.approx(counting.encoder.similarity.cosine[2, 6])
    line = posnmt.load(runs / "counting").attention(dev[0][0], dev[1][0])
    penalties = rows_of(shown[0], "penalties-1-line-1-encoder")
    assert penalties["</s>", "layer 1"] == pytest.approx(line.encoder.penalties[0, -1].mean(), abs=1e-6)


def test_what_training_did_not_have_is_marked(runs, shown):
    with (shown[0] / "figures" / "bias-encoder-2.csv").open(encoding="utf-8", newline="") as file:
        marked = {row["row"]: row["in_training"] for row in csv.DictReader(file)}
    trained = posnmt.load(runs / "recurrent").positions(["mo"], ["ti"]).encoder.trained
    expected = marks(range(-39, 40), [trained])
    assert list(marked.values()) == expected
    assert {"seen", "unseen"} == set(expected)
    svg = (shown[0] / "figures" / "bias-encoder-2.svg").read_text(encoding="utf-8")
    assert "distances not in training" in svg


def test_lines_that_are_left_out_are_counted(runs, tmp_path):
    lines = [" ".join(["mo"] * 300), "", "mo ra", " ".join(["ra"] * 40)]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with without_figures():
        commands.run(
            "show", runs / "recurrent", "--source", tmp_path / "in", "--out", tmp_path / "out", "--sentences", 2
        )
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "1 empty lines were left out." in page
    assert "1 lines of more than 256 subwords were left out." in page
    assert "recurrent: 1 of 2 lines are drawn with words" in page
    assert "Means are over 2 lines" in page
    (tmp_path / "few").write_text("mo ra\n", encoding="utf-8")
    with without_figures():
        commands.run(
            "show", runs / "recurrent", "--source", tmp_path / "few", "--out", tmp_path / "all", "--sentences", 2
        )
    assert "drawn with words" not in (tmp_path / "all" / "report.html").read_text(encoding="utf-8"), "all lines are"
    assert "each with the model&#39;s own translation" in page
    assert "words-1-line-3-encoder-layer-1" in page
    assert 'id="counted"' not in page
    assert "CoPE" not in page
    assert "eordering" not in page


@pytest.fixture(scope="module")
def without_attention(runs, tmp_path_factory):
    """A run of an architecture without attention by head and without schemes, never trained."""
    folder = tmp_path_factory.mktemp("rnn") / "bare"
    shutil.copytree(runs / "counting", folder)
    path = folder / "config.yaml"
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    for side in ("encoder", "decoder"):
        tree["model"][side] = {"layers": 1, "position": []}
    tree["model"].update(architecture="rnn-nmt", init="xavier")
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    run = Run.open(folder)
    save_model(build_model(run.config.model, *[run.text().source.size] * 2), folder / "model.safetensors", {})
    return folder


def test_what_has_no_attention_is_named(runs, without_attention, tmp_path):
    with without_figures():
        commands.run("show", runs / "recurrent", without_attention, "--out", tmp_path / "out", "--lines", 2)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "bare is rnn-nmt, which has no attention by layer and head" in page
    assert re.findall(r'class="system"[^>]*>([^<]+)<', page) == ["recurrent"]


def test_mistakes_are_one_line(runs, without_attention, tmp_path):
    files = {"empty": "", "blank": "\n \n", "two": "a\nb\n", "one": "a\n", "long": " ".join(["mo"] * 400) + "\n"}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    exported = tmp_path / "exported"
    exported.mkdir()
    (exported / "posnmt.json").write_text("{}", encoding="utf-8")
    moved = tmp_path / "moved"
    shutil.copytree(runs / "counting", moved)
    config = (moved / "config.yaml").read_text(encoding="utf-8")
    (moved / "config.yaml").write_text(config.replace(str(runs), str(tmp_path / "nowhere")), encoding="utf-8")
    run = runs / "recurrent"
    for arguments, message in (
        ([tmp_path / "nothing"], "no such run folder"),
        ([exported], "an exported model, not a run"),
        ([without_attention], "bare (rnn-nmt) has neither attention by layer and head nor position schemes"),
        ([run, "--source", tmp_path / "empty"], "source is empty"),
        ([run, "--source", tmp_path / "blank"], "every line is empty"),
        ([run, "--source", tmp_path / "missing"], "source does not exist"),
        ([run, "--source", tmp_path / "long"], "all lines have more than 256 subwords"),
        ([run, "--source", tmp_path / "two", "--target", tmp_path / "one"], "different line counts"),
        ([run, "--target", tmp_path / "one"], "add --source"),
        ([moved], "give some lines with --source FILE"),
        ([run, run], "two runs are called 'recurrent'"),
        ([run, "--source", tmp_path / "one", "--out", tmp_path / "one"], "the output folder is a file"),
        ([run, "--length", 1], "a whole number from 2 to 1,024 is needed; got '1'"),
    ):
        [line] = commands.refused("show", "--out", tmp_path / "out", *arguments)
        assert message in line, line
    assert not (tmp_path / "out").exists()
