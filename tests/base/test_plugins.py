"""Parts from outside posnmt: how they are found, who may import them, and what is said where they fail."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml

from posnmt.base import plugins
from posnmt.base.errors import UserError
from posnmt.config.systems import named
from posnmt.model.positions import scheme_class
from posnmt.position import Stack, create
from posnmt.run.run import Run
from posnmt.study.load import load as load_recipe
from posnmt.study.load import recipe_file
from posnmt.study.plan import KINDS
from posnmt.study.study import load_plan, plan_in
from posnmt.study.study import run as run_study
from posnmt.study.workflow.graph import Graph
from tests.support import corpus
from tests.support.commands import refused, run
from tests.support.documents import blocks
from tests.support.plugin import INIT, SCHEME, install
from tests.support.recipe_case import SMALL, written
from tests.support.serving import serving
from tests.support.sources import SOURCES

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
STACK = Stack(d_model=8, heads=2, layers=1, causal=False, max_length=9)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No part is loaded and no class allowed, before and after."""
    monkeypatch.setattr(plugins, "_loaded", {})
    modules = {*sys.modules}
    with patch.dict(os.environ):
        os.environ.pop(plugins.VARIABLE, None)
        yield
    for name in {*sys.modules} - modules:
        if not name.startswith("posnmt") and "mine" in name:
            del sys.modules[name]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages that Python knows."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def offers(site, name="pos-mine", version="1.0", scheme="mine", module="mine_a", text=SCHEME):
    install(site, name, version, {"posnmt.schemes": {scheme: f"{module}:Mine"}}, {f"{module}.py": text})


def test_a_scheme_of_a_package_has_a_name(site):
    offers(site)
    assert scheme_class("mine").__module__ == "mine_a"
    origin = plugins.origin("scheme", "mine")
    assert (origin.distribution, origin.version, origin.target) == ("pos-mine", "1.0", "mine_a:Mine")
    assert len(origin.sha256) == 64


def test_an_unknown_name_lists_those_of_packages(site):
    offers(site)
    with pytest.raises(UserError, match="did you mean 'mine'"):
        scheme_class("mined")


def test_packages_are_read_again_only_after_a_change(site, monkeypatch):
    reads, entry_points = [], importlib.metadata.entry_points
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **group: reads.append(1) or entry_points(**group))
    offers(site)
    assert plugins.names("scheme") == plugins.names("scheme") == ["mine"]
    assert len(reads) == 1
    offers(site, "pos-more", scheme="more", module="mine_more")  # installed while the program runs
    assert plugins.names("scheme") == ["mine", "more"]
    monkeypatch.syspath_prepend(site.parent / "absent")
    assert plugins.names("scheme") == ["mine", "more"]
    sys.path.remove(str(site))
    assert plugins.names("scheme") == []


def test_a_class_is_imported_only_where_it_is_allowed(site):
    (site / "mine_b.py").write_text(SCHEME)
    with pytest.raises(UserError, match="--allow-plugins"):
        scheme_class("mine_b:Mine")
    assert "mine_b" not in sys.modules
    assert create("mine_b:Mine", STACK).layer(0) is not None  # a program names its own
    assert plugins.origin("scheme", "mine_b:Mine").distribution is None


def test_the_distribution_of_a_class_is_found(site):
    offers(site)
    with plugins.allowing():
        plugins.admit(["mine_a:Mine"])
    scheme_class("mine_a:Mine")
    origin = plugins.origin("scheme", "mine_a:Mine")
    assert (origin.distribution, origin.version) == ("pos-mine", "1.0")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"x = 1\n{SCHEME}raise ValueError('no good')  # here\n", r"raised ValueError: no good \(.*mine_c\.py:HERE\)"),
        ("class Mine(:\n", r"raised SyntaxError: .*mine_c\.py:1\)"),
        ("import sys\nsys.exit(1)\n", r"raised SystemExit: 1 \(.*mine_c\.py:2\)"),
        ("import mine_absent\n", r"raised ModuleNotFoundError: .*mine_absent.* \(.*mine_c\.py:1\)"),
        ("class Mine: pass\n", r"is no scheme: .* is no subclass of posnmt\.position\.Scheme \(mine_c:Mine\)"),
        (SCHEME.replace("class Settings(Options)", "class Settings"), r"is no scheme: its Settings are no subclass"),
        ("", r"mine_c has no Mine \(.*mine_c\.py\)"),
        (
            SCHEME.replace(INIT, INIT + "        helper()\n") + "\n\ndef helper():\n    {}['x']  # here\n",
            r"raised KeyError: 'x' \(.*mine_c\.py:HERE\)",
        ),
        (SCHEME.replace("self, stack, settings", "self, stack"), r"raised TypeError: .*__init__.* \(mine_c:Mine\)"),
        (
            SCHEME + "\n    @classmethod\n    def refuses(cls, *arguments):\n        return 1 / 0  # here\n",
            r"raised ZeroDivisionError: division by zero \(.*mine_c\.py:HERE\)",
        ),
    ],
    ids=[
        "import",
        "syntax",
        "exit",
        "dependency",
        "class",
        "settings",
        "absent",
        "constructor",
        "arguments",
        "refuses",
    ],
)
def test_a_scheme_that_fails_is_named_with_its_line(site, text, sentence):
    (site / "mine_c.py").write_text(text)
    line = text.partition("# here")[0].count("\n") + 1
    with pytest.raises(UserError, match=sentence.replace("HERE", str(line))) as error:
        create("mine_c:Mine", STACK)
    assert "mine_c:Mine" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mine_absent.x:Mine", "needs the module mine_absent; install the package"),
        ("mine_a:", "does not name a class"),
        ("os; x:Mine", "does not name a class"),
    ],
)
def test_a_name_of_no_class_is_an_error(name, sentence):
    with pytest.raises(UserError, match=sentence):
        create(name, STACK)


def test_two_packages_with_one_name_are_an_error_that_names_both(site):
    offers(site)
    offers(site, "pos-other", "2.0", module="mine_d")
    with pytest.raises(UserError, match=r"2 packages .* pos-mine 1\.0 \(mine_a:Mine\), pos-other 2\.0 \(mine_d:Mine\)"):
        scheme_class("mine")


def test_posnmts_own_names_win_with_a_warning(site):
    offers(site, scheme="rope", text="raise ValueError\n")
    assert scheme_class("rope").__module__ == "posnmt_position.rotary"
    [sentence] = plugins.clashes("scheme", ["rope", "alibi"])
    assert "'rope' of pos-mine 1.0 is not used" in sentence
    out, err = run("systems", "--parts")
    assert err.startswith("warning: the scheme 'rope' of pos-mine 1.0 is not used")
    assert out.count("scheme rope") == 1


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("1", "a dictionary with summary"),
        ("{'summary': 'a', 'source': 'b', 'model': 1}", "its model is no dictionary"),
        ("{'summary': 'a', 'source': 'b', 'model': {}, 'subword': 'bpe'}", "its subword is no dictionary"),
    ],
)
def test_a_system_that_is_none_is_an_error(site, value, sentence):
    install(site, "pos-mine", "1", {"posnmt.systems": {"mine": "mine_e:S"}}, {"mine_e.py": f"S = {value}\n"})
    with pytest.raises(UserError, match=rf"mine is no system: {sentence}"):
        named("mine")


def test_a_recipe_that_is_no_file_is_an_error(site):
    install(site, "pos-mine", "1", {"posnmt.recipes": {"mine": "mine_f:R"}}, {"mine_f.py": "R = 'nowhere.yaml'\n"})
    with pytest.raises(UserError, match=r"mine is no recipe: nowhere\.yaml is no file"):
        recipe_file("mine")


@pytest.fixture
def trained(site, tmp_path):
    """A run with a scheme of the package pos-mine in the encoder."""
    offers(site)
    path = corpus.make(tmp_path, 60)
    run(
        "train",
        path,
        "--out",
        tmp_path / "run",
        "--set",
        "model.encoder.position=[{scheme: mine}]",
        "--set",
        "train.steps=2",
    )
    plugins._loaded.clear()
    return tmp_path / "run"


def recorded(folder):
    """Name and version of each part in a run's record."""
    return [(part["name"], part["version"]) for part in json.loads((folder / "record.json").read_text())["plugins"]]


def reopened(trained, capsys):
    """What is printed when a run is opened in a process that has not loaded its parts."""
    from posnmt.run.run import _warn_once

    plugins._loaded.clear()
    _warn_once.cache_clear()
    Run.open(trained)
    return capsys.readouterr().err


def test_a_run_knows_its_packages_and_says_what_has_changed(trained, site, capsys):
    [part] = json.loads((trained / "record.json").read_text())["plugins"]
    assert {key: part[key] for key in ("kind", "name", "target", "distribution", "version")} == {
        "kind": "scheme", "name": "mine", "target": "mine_a:Mine", "distribution": "pos-mine", "version": "1.0"
    }  # fmt: skip
    capsys.readouterr()
    assert reopened(trained, capsys) == ""
    offers(site, version="1.1")
    assert reopened(trained, capsys) == (
        f"warning: the scheme mine was pos-mine 1.0 at the training and is pos-mine 1.1 here ({trained})\n"
    )
    offers(site, text=SCHEME + "# changed\n")
    assert "the source of the scheme mine (mine_a:Mine) has changed" in reopened(trained, capsys)
    install(site, "pos-mine", "1.0", {}, {})
    with pytest.raises(UserError) as error:
        reopened(trained, capsys)
    assert str(error.value) == (
        f"the run needs the scheme 'mine' of pos-mine 1.0, which is not installed ({trained});"
        ' pip install "pos-mine==1.0"'
    )


@pytest.mark.parametrize("damaged", [1, [{}], [{"kind": "scheme", "name": "mine", "target": "x", "sha256": None,
                                                "distribution": "a; rm -rf /", "version": "1"}]])  # fmt: skip
def test_a_damaged_record_of_parts_is_an_error(trained, damaged):
    record = json.loads((trained / "record.json").read_text())
    (trained / "record.json").write_text(json.dumps({**record, "plugins": damaged}))
    with pytest.raises(UserError, match="record is damaged: plugins"):
        Run.open(trained)


def test_a_run_of_somebody_else_imports_no_class(trained, site, tmp_path):
    sign = tmp_path / "imported"
    (site / "mine_g.py").write_text(f"open({str(sign)!r}, 'w')\n{SCHEME}")
    config = trained / "config.yaml"
    config.write_text(config.read_text().replace("scheme: mine\n", "scheme: mine_g:Mine\n"))
    lines = tmp_path / "lines"
    lines.write_text("a b\n")
    commands = (
        ["translate", trained, "--input", lines],
        ["score", trained, "--source", lines, "--target", lines],
        ["export", trained, "--format", "ctranslate2", "--out", tmp_path / "exported"],
        ["serve", trained, "--port", 0],
        ["train", "--out", trained, "--resume"],
        ["analyse", "--run", trained, "--source", lines, "--reference", lines, "--output", f"a={lines}"],
    )
    for command in commands:
        assert refused(*command) == [
            "error: mine_g:Mine would run code from outside posnmt, and no installed package offers it by a name"
            f" ({config}); if you trust it, add --allow-plugins (in Python allow_plugins=True)"
        ]
    assert not sign.exists()
    run("translate", trained, "--input", lines, "--allow-plugins")
    assert sign.exists()
    with pytest.raises(UserError):
        Run.open(trained)  # what one command allowed has ended with it
    assert Run.open(trained, allow_plugins=True).config.model.encoder.position[0].scheme == "mine_g:Mine"


def test_a_scheme_that_raises_in_training_ends_it_with_one_line(site, tmp_path):
    offers(
        site, text=SCHEME.replace("return -self.slope", "raise ArithmeticError('at work')\n        return -self.slope")
    )
    path = corpus.make(tmp_path, 60)
    line = SCHEME.split("return -self.slope")[0].count("\n") + 1
    settings = ["--set", "model.encoder.position=[{scheme: mine}]", "--set", "train.steps=2"]
    assert refused("train", path, "--out", tmp_path / "run", *settings) == [
        f"error: the scheme mine of pos-mine 1.0 raised ArithmeticError: at work ({site / 'mine_a.py'}:{line});"
        " correct it; posnmt.testing.check_scheme shows where it fails"
    ]


def test_a_scheme_from_outside_is_used_as_it_is(site):
    offers(site)
    built = create("mine", STACK)
    assert type(built) is scheme_class("mine")
    assert type(built.layer(0)).__module__ == "mine_a"
    assert built.training


def test_a_wrong_shape_ends_training_and_translating_with_one_line(site, trained, tmp_path):
    wrong = SCHEME.replace("span.diagonals.abs()", "span.diagonals[1:].abs()")
    (site / "mine_a.py").write_text(wrong)
    lines = tmp_path / "lines"
    lines.write_text("a b\n")
    sys.modules.pop("mine_a", None)
    importlib.invalidate_caches()
    config = tmp_path / "config.yaml"
    place = f"({site / 'mine_a.py'}:{SCHEME.split('def by_offset')[0].count(chr(10)) + 1})"
    for arguments in (
        ["translate", trained, "--input", lines],
        ["train", config, "--out", tmp_path / "other", "--set", "model.encoder.position=[{scheme: mine}]"],
    ):
        plugins._loaded.clear()
        [fault] = refused(*arguments)
        assert fault.startswith("error: the scheme mine of pos-mine 1.0: Bias.by_offset returned float32 of shape [2, ")
        assert place in fault


def test_a_fault_in_a_part_is_that_of_its_request_alone(site, trained):
    raises = "        if span.length > 4:\n            raise ArithmeticError('too long')\n        return -self.slope"
    (site / "mine_a.py").write_text(SCHEME.replace("        return -self.slope", raises))
    path = os.pathsep.join([str(site), SOURCES])
    pair = {"source": "en", "target": "de"}
    with serving(trained, environment={"PYTHONPATH": path}) as server:
        assert server.post("/translate", {**pair, "q": "a"})[0] == 200
        status, answer, _ = server.post("/translate", {**pair, "q": "a b c d e f g h i"})
        assert (status, "from outside posnmt has a fault" in answer["error"]) == (500, True)
        assert server.post("/translate", {**pair, "q": "a"})[0] == 200
        server.end()
        line = SCHEME.split("return -self.slope")[0].count("\n") + 2
        assert (
            f"error: the scheme mine of pos-mine 1.0 raised ArithmeticError: too long ({site / 'mine_a.py'}:{line})"
            in server.err
        )
        assert "Traceback" not in server.err


def test_a_study_notices_a_part_that_has_changed(site, tmp_path):
    offers(site)
    system = {"system": "none", "model": {"encoder": {"position": [{"scheme": "mine"}]}}}
    recipe = load_recipe(written(tmp_path, {**SMALL, "systems": {**SMALL["systems"], "relative": system}}))
    out, messages = tmp_path / "study", []

    def keys(study_plan=None):
        study_plan = study_plan or load_plan(out)
        graph = Graph(study_plan.steps.values(), KINDS)
        return {name: graph.key(name) for name in study_plan.steps}

    def again():
        plugins._loaded.clear()
        messages.clear()
        run_study(recipe, "smoke", None, out, say=messages.append, only=["corpus/artificial"])
        return keys(), [each for each in messages if "mine" in each]

    first, said = again()
    assert said == []
    assert again() == (first, [])
    offers(site, text=SCHEME + "# changed\n")
    assert keys() == first  # as of the last run
    planned = keys(plan_in(out, recipe, "smoke", None, messages.append))  # as the next run has them
    assert planned != first
    assert "are run again" in messages[-1]
    second, said = again()
    assert said == [
        "the source of the scheme mine (mine_a:Mine) has changed since the training: trainings with it are run again"
    ]
    assert planned == second
    changed = {name for name in first if first[name] != second[name]}
    assert changed
    assert all(name.split("/")[0] in ("train", "translate", "speed") for name in changed)
    assert all("relative" in name for name in changed if name.startswith("train/"))
    assert {name for name in first if name.startswith("train/relative")} <= changed
    offers(site, version="1.1", text=SCHEME + "# changed\n")
    assert again()[1] == [
        "the scheme mine was pos-mine 1.0 at the training and is pos-mine 1.1 here: trainings with it are run again"
    ]


def documented(tmp_path):
    """The package of the page, installed into a folder; its configuration; the folder of the scheme."""
    found = {kind: [] for kind in ("yaml", "toml", "python")}
    for _, kind, text in blocks(PAGE.read_text(encoding="utf-8")):
        if kind in found:
            found[kind].append(text)
    [model], [project], [parts] = found["yaml"], found["toml"], found["python"]
    run("new", "scheme", "nearness", "--out", tmp_path / "work")
    about = tomllib.loads(project)["project"]
    modules = {
        "nearness.py": (tmp_path / "work" / "nearness.py").read_text(),
        "nearness_parts.py": parts,
        "near_study.yaml": recipe_file("choose").read_text(),
    }
    site = install(tmp_path / "site", about["name"], about["version"], about["entry-points"], modules)
    return site, yaml.safe_load(model), tmp_path / "work"


@pytest.mark.slow
def test_the_page_runs_in_processes_of_their_own(tmp_path):
    """The class from the current folder, and the same scheme by the entry points of a package."""
    site, model, work = documented(tmp_path)
    path = corpus.make(tmp_path, 60, train={"steps": 2})
    lines = tmp_path / "lines"
    lines.write_text("a b\nc\n")

    def process(*arguments, cwd, packages="", status=0):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([packages, SOURCES])}
        command = [sys.executable, "-P", "-m", "posnmt", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout, done.stderr

    sides = [
        f"--set=model.{side}={json.dumps({**model['model'][side], 'layers': 1})}" for side in ("encoder", "decoder")
    ]
    process("train", path, "--out", tmp_path / "one", *sides, cwd=work)
    out, _ = process("translate", tmp_path / "one", "--input", lines, "--allow-plugins", cwd=work)
    assert out.count("\n") == 2
    process("train", path, "--out", tmp_path / "two", "--set", "model.system=near", cwd=tmp_path, packages=str(site))
    out, _ = process("translate", tmp_path / "two", "--input", lines, cwd=tmp_path, packages=str(site))
    assert out.count("\n") == 2
    assert recorded(tmp_path / "one") == [("nearness:Nearness", None)]
    assert recorded(tmp_path / "two") == [("near", "1.0"), ("nearness", "1.0")]


def test_the_parts_of_a_package_are_listed_with_their_origin(tmp_path, monkeypatch):
    site, _, _ = documented(tmp_path)
    monkeypatch.syspath_prepend(site)
    assert re.search(r"from installed packages:\n  near +a bias for nearness.*pos-nearness 1\.0\)", run("systems")[0])
    assert json.loads(run("systems", "--json")[0])["near"]["origin"] == "pos-nearness 1.0"
    assert "scheme nearness (pos-nearness 1.0):" in run("systems", "--parts")[0]
    assert "encoder      2 layers, nearness\n" in run("systems", "near", "--size", "tiny")[0]
    assert re.search(r"near-study .*\n.*near_study\.yaml   \(pos-nearness 1\.0\)", run("study", "list")[0])


def test_a_recipe_may_name_classes_and_its_steps_inherit_the_permission(site, tmp_path):
    (site / "mine_h.py").write_text(SCHEME)
    system = {"system": "none", "model": {"encoder": {"position": [{"scheme": "mine_h:Mine"}]}}}
    path = written(tmp_path, {**SMALL, "systems": {**SMALL["systems"], "relative": system}})
    load_recipe(path)
    step = "import posnmt.base.plugins; posnmt.base.plugins.admit(['mine_h:Mine'])"
    assert subprocess.run([sys.executable, "-c", step], check=False).returncode == 0
    os.environ.pop(plugins.VARIABLE)
    done = subprocess.run([sys.executable, "-c", step], check=False, capture_output=True, text=True)
    assert "mine_h:Mine would run code" in done.stderr


def test_a_new_scheme_works_as_it_is(tmp_path, monkeypatch, capsys):
    out, err = run("new", "scheme", "gaussian", "--out", tmp_path)
    assert out.splitlines() == [str(tmp_path / "gaussian.py"), str(tmp_path / "test_gaussian.py")]
    assert "python " + str(tmp_path / "test_gaussian.py") in err
    page = (PAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## A position scheme, whole")[1]
    assert next(text for _, kind, text in blocks(page) if kind == "python") == (tmp_path / "gaussian.py").read_text()
    monkeypatch.syspath_prepend(tmp_path)  # as for a script
    capsys.readouterr()
    runpy.run_path(str(tmp_path / "test_gaussian.py"), run_name="__main__")
    assert capsys.readouterr() == ("Gaussian holds\n", "")
    assert refused("new", "scheme", "gaussian", "--out", tmp_path) == [
        f"error: the output exists and is not overwritten ({tmp_path / 'gaussian.py'}); choose another --out"
    ]


@pytest.mark.parametrize("name", ["random", "scheme", "A", "1a", "a.b", "class"])
def test_a_name_that_a_new_scheme_cannot_have(name, tmp_path):
    assert len(refused("new", "scheme", name, "--out", tmp_path / "new")) == 1
    assert not (tmp_path / "new").exists()


def test_permission_is_a_boolean():
    with pytest.raises(UserError, match="boolean"):
        Run.open("runs/any", allow_plugins="no")
