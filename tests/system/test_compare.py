"""`posnmt compare` as people run it: a whole small comparison that is killed and goes on."""

import json
import os
import signal
import subprocess
import sys

import pytest

from posnmt.corpora.artificial.pairs import generate
from posnmt.study.comparison import RECIPE
from tests.support.commands import process, refused, run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(generate(2000, 3, 16, 1))
    for name, side in (("en", "source"), ("de", "target")):
        (folder / f"c.{name}").write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs), encoding="utf-8")
    return folder


def words(corpus, out, *more):
    tiny = ("model.size=tiny", "train.steps=8", "decode.beam=1", "subword.vocabulary=300")
    options = [word for setting in tiny for word in ("--set", setting)]
    systems = ("--systems", "transformer,rope", "--seeds", 1, "--cap", 12)
    return ("compare", corpus / "c.en", corpus / "c.de", *systems, "--out", out, *options, *more)


def test_a_plan_trains_nothing(corpus, tmp_path):
    out = tmp_path / "out"
    told, noted = run(*words(corpus, out, "--plan"))
    assert told == f"{out / RECIPE}\n"
    assert not (out / "steps").exists()
    terms = [line.split(maxsplit=1)[0] for line in noted.splitlines() if line[:1].isalpha() and "  " in line]
    shown = ["corpus", "cap", "training", "test", "model", "trainings", "updates", "expect", "could", "time"]
    assert [term for term in terms if term in shown] == shown
    told, _ = run(
        "study", "plan", out / RECIPE, "--scale", "small", "--data", out / "text", "--out", out, "--no-calibrate"
    )
    assert "2 trainings" in " ".join(told.split())


def test_a_command_that_is_wrong_gives_one_line(corpus, tmp_path):
    [line] = refused(*words(corpus, tmp_path / "out", "--systems", "transformer,ropee"))
    assert "ropee" in line
    [line] = refused(*words(corpus, tmp_path / "out", "--hours", "0"))
    assert "--hours" in line
    [line] = refused("compare", corpus / "c.en", corpus / "none.de", "--out", tmp_path / "out")
    assert "none.de" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_comparison_goes_on_after_a_kill_and_ends_with_what_was_found(corpus, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "posnmt", *map(str, words(corpus, out))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as killed:
        finished = next(line.split()[1] for line in killed.stderr if line.startswith("done    train/"))
        os.kill(killed.pid, signal.SIGKILL)
    told, log = process(*words(corpus, out))
    assert f"started {finished}\n" not in log
    found, left, *rest = told.splitlines()
    *items, registered, page, figure, table = rest
    files = [page, figure, table]
    assert found.startswith("Found: nothing")  # one seed, and 8 updates
    assert left == "Not decided: 3 of 3 comparisons."
    assert all(item.startswith("- whether ") for item in items)
    assert files == [str(out / name) for name in ("report.html", "figures/figure-1a.pdf", "tables/table-1.csv")]
    assert all(os.path.getsize(name) for name in files)
    [entry] = json.loads((out / "study.json").read_text(encoding="utf-8"))["registered"]
    assert (entry["trainings"], len(entry["content"]["pairs"])) == (0, 3)
    assert registered.startswith("Registered: before the first training (")
    assert entry["sha256"][:16] in registered
    page = (out / "report.html").read_text(encoding="utf-8")
    assert (
        page.count(registered.removeprefix("Registered: ").removesuffix(".")) == 2
    )  # of the facts, and of the reasons
    assert page.count("<p>Found: ") == page.count("<p>Not decided: ") == 1
    # what stands in the recipe now is what counts
    recipe = out / RECIPE
    recipe.write_text(recipe.read_text().replace("title: 2 systems", "title: My 2 systems"), encoding="utf-8")
    told, log = process(*words(corpus, out))
    assert "was changed after the plan" in log
    assert not any(line.startswith("updates ") for line in log.splitlines())  # the plan is no longer that
    assert "started train/" not in log
    assert "My 2 systems" in (out / "report.html").read_text(encoding="utf-8")
    [line] = refused(*words(corpus, out, "--seeds", 2))
    assert "has begun with other values of --seeds" in line
