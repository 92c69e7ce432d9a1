"""The real commands, end to end; of each something in a process of its own."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import posnmt.cli.demo
from posnmt.config.systems import RECOMMENDED, SYSTEMS
from posnmt.data.text import TextPipeline
from tests.support import corpus
from tests.support.commands import process, refused, run
from tests.support.documents import ROOT
from tests.support.odd_lines import LINES
from tests.support.training_case import losses


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a corpus, config.yaml and two trained runs that share a store."""
    folder = tmp_path_factory.mktemp("trained")
    path = corpus.memorised(folder)
    out, err = process("train", path, "--out", folder / "relative")
    assert out == f"{folder / 'relative'}\n"
    assert re.search(r"step 150  dev perplexity [\d.]+  BLEU [\d.]+", err)
    settings = ("model.system=learned", "model.max_length=60", "train.steps=20", "train.evaluate_every=20")
    run("train", path, "--out", folder / "learned", *(each for setting in settings for each in ("--set", setting)))
    return folder


def test_training_learns(trained):
    """A model that has seen the sentences of dev often writes them down: the loss falls and BLEU rises."""
    assert losses(trained / "relative", "dev", "bleu")[150] > 80
    assert losses(trained / "relative", "dev", "perplexity")[150] < 1.3


def lines(text):
    return text.removesuffix("\n").split("\n")


def test_translate_gives_one_line_for_one_line_in_order(trained):
    source = trained / "corpus" / "dev.source"
    out, err = run("translate", trained / "relative", "--input", source)
    assert len(lines(out)) == 20
    assert "Traceback" not in err
    turned = "\n".join(lines(source.read_text())[::-1]) + "\n"
    back, _ = run("translate", trained / "relative", "--batch", 1, stdin=turned.encode())
    assert lines(back)[::-1] == lines(out)


def test_translate_reports_the_scores_that_score_prints(trained, tmp_path):
    source = trained / "corpus" / "dev.source"
    out, _ = run("translate", trained / "relative", "--input", source, "--beam", 3, "--nbest", 3, "--format", "jsonl")
    records = [json.loads(line) for line in lines(out)]
    assert [record["line"] for record in records] == list(range(1, 21))
    flat = [(record["source"], each) for record in records for each in record["hypotheses"]]
    assert len(flat) == 60
    (tmp_path / "s").write_text("".join(text + "\n" for text, _ in flat))
    (tmp_path / "t").write_text("".join(each["text"] + "\n" for _, each in flat))
    scored, _ = process("score", trained / "relative", "--source", tmp_path / "s", "--target", tmp_path / "t")
    # `score` cuts the text anew: where search wrote a word in another cut, it is another output
    target = TextPipeline.load(trained / "relative" / "text").target
    pieces = target.subwords.pieces
    comparable = [
        (each, score)
        for (_, each), score in zip(flat, map(float, lines(scored)), strict=True)
        if [pieces[token] for token in target.encode([each["text"]])[0]] == each["subwords"]
    ]
    assert len(comparable) > 20
    for each, score in comparable:
        assert each["log_probability"] == pytest.approx(score, abs=2e-4)
        assert each["score"] == pytest.approx(score / (len(each["subwords"]) + 1), abs=2e-4)


def test_n_best_text_and_compressed_input(trained, tmp_path):
    packed = tmp_path / "in.gz"
    packed.write_bytes(gzip.compress((trained / "corpus" / "dev.source").read_bytes()))
    out, _ = run("translate", trained / "relative", "--input", packed, "--output", tmp_path / "o", "--nbest", 2)
    assert out == ""
    rows = [line.split("\t") for line in lines((tmp_path / "o").read_text())]
    assert [int(number) for number, _, _ in rows] == [n for n in range(1, 21) for _ in range(2)]
    assert all(float(a[1]) >= float(b[1]) for a, b in zip(rows[::2], rows[1::2], strict=True))


def test_empty_lines_and_crlf_are_kept_and_said(trained):
    out, err = run("translate", trained / "relative", stdin=b"lo dumo\r\n\n   \nlo gubi")
    assert len(lines(out)) == 4
    assert lines(out)[1:3] == ["", ""]
    assert "note: 2 empty lines are left empty" in err
    assert "1 lines end in CRLF" in err
    out, _ = run("translate", trained / "relative", stdin=b"")
    assert out == ""


def test_a_pipe_has_each_translation_before_its_next_line(trained):
    command = [sys.executable, "-m", "posnmt", "translate", str(trained / "relative")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        late = threading.Timer(120, process.kill)  # so that waiting for the next line fails, and does not hang
        late.start()
        answers = []
        for line in (b"lo dumo\n", b"\n", b"lo gubi\n"):
            process.stdin.write(line)
            process.stdin.flush()
            answers.append(process.stdout.readline())
        late.cancel()
        assert process.communicate()[0] == b""
    together, _ = run("translate", trained / "relative", stdin=b"lo dumo\n\nlo gubi\n")
    assert b"".join(answers).decode() == together
    assert process.returncode == 0


def test_odd_lines_come_back_in_order(trained, tmp_path):
    """Whatever a line has in it, and whatever is translated beside it; every fourth line alone as well."""
    translate = ("translate", trained / "relative", "--beam", 1, "--max-ratio", 1, "--input")
    lines_of = {}
    for name, chosen in (("given", LINES), ("mixed", random.Random(1).sample(LINES, len(LINES)))):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8", newline="")
        out, _ = run(*translate, tmp_path / name, "--batch", 1000)
        lines_of[name] = dict(zip(chosen, lines(out), strict=True))
    assert lines_of["given"] == lines_of["mixed"]
    (tmp_path / "few").write_text("".join(f"{line}\n" for line in LINES[::4]), encoding="utf-8", newline="")
    alone, _ = run(*translate, tmp_path / "few", "--batch", 1)
    assert lines(alone) == [lines_of["given"][line] for line in LINES[::4]]


def test_a_line_of_2000_subwords(trained, tmp_path):
    long = tmp_path / "long"
    long.write_text("lo dumo\n" + " ".join(["lo dumo"] * 1000) + "\n")
    out, err = run(
        "translate",
        trained / "relative",
        "--input",
        long,
        "--beam",
        1,
        "--split",
        "off",
        "--max-ratio",
        0.01,
        "--max-extra",
        3,
    )
    assert len(lines(out)) == 2
    assert re.search(r"warning: \d of 2 lines reached the output limit of 0.01 x source \+ 3 subwords", err)
    [error] = refused("translate", trained / "learned", "--input", long, "--split", "off")
    assert re.search(
        rf"\d+ subwords, but this model's position table ends at 59 .*\({long}:2\); shorten or split", error
    )


def test_positions_that_cannot_be_interpolated(trained):
    [error] = refused("translate", trained / "learned", "--interpolate", 2, stdin=b"lo dumo\n")
    assert "no position scheme of self-attention can be interpolated" in error


def test_an_ensemble(trained):
    source = (trained / "corpus" / "dev.source").read_bytes()
    out, _ = run("translate", trained / "relative", trained / "learned", stdin=source)
    assert len(lines(out)) == 20


@pytest.mark.parametrize(
    ("stdin", "sentence"),
    [
        (b"good\nbad \xff here\n", r"standard input:2"),
        (b"good\nbad \0 here\n", r"standard input:2"),
    ],
)
def test_translate_refuses_bad_text(trained, stdin, sentence):
    [error] = refused("translate", trained / "relative", stdin=stdin)
    assert re.search(sentence, error)


def test_what_translate_and_score_refuse(trained, tmp_path):
    source = trained / "corpus" / "dev.source"
    assert "no such run folder" in refused("translate", tmp_path / "absent", "--input", source)[0]
    exported = tmp_path / "exported"
    exported.mkdir()
    (exported / "posnmt.json").write_text("{}", encoding="utf-8")
    [line] = refused("score", exported, "--source", source, "--target", source)
    assert "an exported model, not a run" in line
    assert "name the run that it was exported from" in line
    assert "is not a run folder" in refused("translate", tmp_path, "--input", source)[0]
    assert "does not exist" in refused("translate", trained / "relative", "--input", tmp_path / "absent")[0]
    assert "is a folder" in refused("translate", trained / "relative", "--input", tmp_path)[0]
    assert (
        "9 translations of a line are wanted, and the beam keeps 2"
        in refused("translate", trained / "relative", "--input", source, "--nbest", 9)[0]
    )
    bad = tmp_path / "bad"
    bad.write_bytes(b"fine\n\xfe\n")
    words = ("translate", trained / "relative", "--input", bad, "--output", tmp_path / "never")
    assert f"{bad}:2" in refused(*words)[0]
    assert not (tmp_path / "never").exists()
    short = tmp_path / "short"
    short.write_text("one\n")
    [error] = refused("score", trained / "relative", "--source", source, "--target", short)
    assert f"{source} has 20, {short} has 1" in error


def test_prepare_once_and_its_table(tmp_path):
    path = corpus.make(tmp_path, data={"max_length": 12})
    out, err = process("prepare", path)
    assert "kept" in err
    assert "dropped" in err
    again, err = run("prepare", path)
    assert again == out
    assert "prepared already" in err
    manifest = json.loads((Path(out.strip()) / "manifest.json").read_text())
    books = manifest["splits"]["train"]
    assert books["kept"] + sum(books["dropped"].values()) == books["read"] == 300


def test_train_refusals(trained, tmp_path):
    path = trained / "config.yaml"
    [error] = refused("train", path, "--out", trained / "relative")
    assert "the run folder exists already" in error
    assert len(refused("train", path, "--set", "train.stpes=1", "--set", "model.heads=0", "--set", "modle=3")) == 3
    assert "no training text is named" in refused("train")[0]
    assert "does not exist" in refused("train", tmp_path / "absent.yaml")[0]
    [error] = refused("train", path, "--out", tmp_path / "x", "--set", "data.train.source=corpus/train.source")
    assert "different line counts" in error
    assert "has 60" in error
    assert "has 20" in error
    [error] = refused("train", path, "--out", tmp_path / "x", "--set", "subword.vocabulary=50000")
    assert "subword.vocabulary" in error
    assert not (tmp_path / "x").exists()


def test_a_folder_that_cannot_be_made(trained, tmp_path):
    (tmp_path / "file").write_text("x")
    [error] = refused("train", trained / "config.yaml", "--out", tmp_path / "file" / "run")
    assert re.search(r"error: Not a directory \(.*file/run\); check the path", error)
    assert refused("demo", "--out", tmp_path / "file" / "demo")[0].startswith("error: Not a directory")


def test_the_demo_needs_a_folder_of_its_own(tmp_path):
    (tmp_path / "file").write_text("x")
    [error] = refused("demo", "--out", tmp_path)
    assert error == f"error: the folder exists already and is not overwritten ({tmp_path}); choose another --out"


def test_systems():
    out, _ = process("systems")
    first, others = out.split("\n\n")
    heading, page = lines(first)[0], Path("docs", "choose.md")
    assert page.as_posix() in heading
    best = re.search(r"\*\*`(\S+)` scores the highest BLEU", (ROOT / page).read_text(encoding="utf-8"))
    assert best[1] in RECOMMENDED
    assert [line.split()[0] for line in lines(first)[1:]] == list(RECOMMENDED)
    assert sorted(line.split()[0] for line in [*lines(first)[1:], *lines(others)[1:]]) == sorted(SYSTEMS)
    out, _ = run("systems", "relative", "--vocabulary", 16004)
    assert "68,787,332" in out
    sizes = [json.loads(run("systems", "relative", "--size", size, "--json")[0]) for size in ("tiny", "base", "big")]
    assert sizes[0]["parameters"] < sizes[1]["parameters"] == 68_787_332 < sizes[2]["parameters"]
    out, _ = run("systems", "transformer", "--vocabulary", 40004, "--json")
    assert json.loads(out)["parameters"] == 105_624_644
    out, _ = run("systems", "--parts")
    assert "scheme relative: " in out
    assert "    distance: 16  clipping distance k: 2k+1 vectors" in out
    [error] = refused("systems", "realtive", run=process)
    assert "did you mean 'relative'?" in error


def test_mistyped_commands_and_options():
    assert "did you mean translate?" in refused("tranlsate", run=process)[0]
    assert "--inptu" in refused("translate", "run", "--inptu", "x")[0]


def test_analyse_with_a_run_counts_its_subwords(trained, tmp_path):
    source, reference = (trained / "corpus" / f"dev.{side}" for side in ("source", "target"))
    run("translate", trained / "relative", "--input", source, "--output", tmp_path / "out")
    arguments = [
        "--source",
        source,
        "--reference",
        reference,
        "--output",
        f"mine={tmp_path / 'out'}",
        "--output",
        f"copy={source}",
    ]
    arguments += ["--run", trained / "relative", "--bin-width", 5, "--samples", 400]
    out, err = process("analyse", *arguments, "--out", tmp_path / "report")
    assert out == f"{tmp_path / 'report' / 'report.html'}\n"
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert results["settings"]["unit"] == "subwords"
    record = json.loads((trained / "relative" / "record.json").read_text())
    assert results["training"]["longest"] == record["training_lengths"]["source"]["longest"]
    [seen] = results["seen_in_training"]
    assert [seen[kind] for kind in ("sentences", "sources", "pairs")] == [20, 20, 20], "it was trained on dev"
    assert (Path(seen["place"]) / "manifest.json").is_file()
    assert "warning: 20 of 20 test sentences are in the training text" in err


def test_analysis_counts_what_a_run_s_pipeline_makes_of_the_text(trained, tmp_path):
    """With Moses' tokenisation: without it, "a,b" has other subwords. The unit can be another one."""
    source = tmp_path / "source"
    source.write_text(
        "".join(f"{line}, {line}; ({line})\n" for line in lines((trained / "corpus/dev.source").read_text()))
    )
    run_folder = tmp_path / "run"
    run(
        "train", "--source", source, "--target", source, "--set", "data.tokenise=moses", "--set", "train.steps=1",
        "--set", "model.size=tiny", "--set", "subword.vocabulary=80", "--set", "data.held_out=2", "--out", run_folder,
    )  # fmt: skip
    asked = ("analyse", "--source", source, "--reference", source, "--output", f"same={source}", "--run", run_folder)
    run(*asked, "--samples", 0, "--out", tmp_path / "report")
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    encoded = TextPipeline.load(run_folder / "text").source.encode(lines(source.read_text()))
    assert posnmt.analyse(source, source, {"same": source}, run=run_folder, samples=0).results == results
    edges = [each["first"] for each in results["bins"]]
    assert [each["n"] for each in results["bins"]] == np.histogram(list(map(len, encoded)), [*edges, 10**6])[0].tolist()
    run(*asked, "--samples", 0, "--unit", "words", "--out", tmp_path / "words")
    assert json.loads((tmp_path / "words" / "results.json").read_text())["settings"]["unit"] == "words"


def test_the_schema_is_printed():
    out, _ = run("train", "--schema")
    assert json.loads(out)["title"] == "posnmt"


def test_a_reader_that_goes_away_is_no_fault_and_not_success(trained):
    source = (trained / "corpus" / "dev.source").read_bytes() * 50
    command = f"{sys.executable} -m posnmt translate {trained / 'relative'} --beam 1 | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], input=source, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (141, b""), "what a shell says of `cat` there"


def demonstrated(out, run):
    """What holds after the demo in a few seconds."""
    told, err = run("demo", "--out", out, "--updates", 4)
    page = Path(told.strip())
    assert page == out / "report" / "report.html"
    results = json.loads((page.parent / "results.json").read_text())
    assert [system["name"] for system in results["systems"]] == ["absolute", "relative"]
    assert results["training"]["longest"] < max(each["first"] for each in results["bins"])
    assert "training the absolute system: 4 updates" in err
    assert re.findall(r"posnmt (\w+)", err.split("Next:")[1]) == ["translate", "train", "translate", "compare"]
    assert (page.parent / "tables/likelihood.csv").read_text().startswith("axis,bin,system,baseline")
    assert [group["name"] for group in results["verdict"]["groups"]] == ["trained", "longer"]
    [error] = refused("demo", "--out", out)
    assert "is not overwritten" in error


@pytest.mark.slow
def test_demo_does_the_main_job_on_a_small_corpus(tmp_path, monkeypatch):
    small = partial(posnmt.cli.demo.artificial, train=1500, dev=20)
    monkeypatch.setattr("posnmt.cli.demo.artificial", small)
    monkeypatch.setattr("posnmt.cli.demo.TEST", 40)
    demonstrated(tmp_path / "demo", run)


@pytest.mark.slow
def test_demo_does_the_main_job(tmp_path):
    demonstrated(tmp_path / "demo", process)
