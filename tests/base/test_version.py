"""The one format of all that posnmt writes, and the versions of packages."""

from __future__ import annotations

import ast
import json
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import posnmt
from posnmt.base.errors import UserError
from posnmt.base.version import FORMAT, UNKNOWN, check_format, format_fault, version_of
from posnmt.run.resolve import dump, load
from posnmt.run.run import Run
from posnmt.training.train import train
from tests.support import corpus

NEWER = "written by a newer posnmt, in format"


@pytest.mark.parametrize(
    ("number", "said"),
    [(FORMAT, None), (FORMAT + 1, NEWER), (99, NEWER), (0, "no format"), (-1, "no format"), (None, "no format")]
    + [(wrong, "no format") for wrong in ("1", [1], {}, 1.5)],
)
def test_a_number_is_the_format_or_is_refused(number, said, tmp_path):
    fault = format_fault(number)
    assert said is None if fault is None else said in fault
    if fault is None:
        check_format(number, tmp_path)
    else:
        with pytest.raises(UserError) as raised:
            check_format(number, tmp_path)
        assert (raised.value.what, raised.value.where) == (fault, str(tmp_path))


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (FORMAT + 1, f"format: {NEWER} {FORMAT + 1}"),
        (0, "format: this is no format: 0"),
        ("new", "a whole number is needed"),
    ],
)
def test_a_configuration_of_another_format_is_refused(config_path, number, sentence):
    with pytest.raises(UserError) as raised:
        load(config_path, [f"format={number}"])
    [line] = raised.value.lines
    assert sentence in line
    (other := config_path.with_name("other.yaml")).write_text(f"{config_path.read_text()}format: {FORMAT + 1}\n")
    with pytest.raises(UserError) as raised:
        load(other)
    assert f"{other}:{len(other.read_text().splitlines())}" in raised.value.lines[0]


def test_a_configuration_that_names_the_format_is_the_same(config_path):
    assert load(config_path, [f"format={FORMAT}"]) == load(config_path)


def test_all_that_a_run_has_is_of_the_format(config_path, tmp_path):
    config = load(config_path, ["train.steps=2"])
    train(config, tmp_path / "run")
    assert yaml.safe_load(dump(config))["format"] == FORMAT
    assert (tmp_path / "run" / "config.yaml").read_text().startswith(f"format: {FORMAT}\n")
    assert Run.open(tmp_path / "run").config.format == FORMAT
    [split] = config_path.parent.rglob("train.arrow")
    assert json.loads(split.with_name("manifest.json").read_text())["format"] == FORMAT
    text = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "run" / "config.yaml").write_text(text.replace(f"format: {FORMAT}", f"format: {FORMAT + 1}", 1))
    with pytest.raises(UserError, match=NEWER):
        Run.open(tmp_path / "run")


def test_the_version_of_a_package_without_metadata_is_unknown():
    assert version_of("pytest") == version("pytest") == pytest.__version__
    assert version_of("no-such-package") == UNKNOWN


def test_versions_of_packages_are_read_in_one_place():
    """`importlib.metadata.version` fails for a package without metadata. The two others ask where there is some."""
    root = Path(posnmt.__file__).parent
    reading = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and node.module == "importlib.metadata" and _names(node, "version"))
        or (isinstance(node, ast.Attribute) and node.attr == "version" and ast.unparse(node.value).endswith("metadata"))
    }
    assert reading == {"base/version.py", "base/plugins.py", "metrics/neural/programs/runner.py"}


def _names(node, name):
    return any(alias.name == name for alias in node.names)
