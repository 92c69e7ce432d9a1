"""YAML by LibYAML and by PyYAML's own parser."""

from pathlib import Path

import pytest
import yaml

import posnmt
from posnmt.config.yaml import read_yaml
from posnmt.errors import UserError

FILES = sorted(Path(posnmt.__file__).parent.rglob("*.yaml"))


def read(path):
    return read_yaml(path, "file", "no mapping")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_both_read_alike(path, monkeypatch):
    by_libyaml = read(path)
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert read(path) == by_libyaml


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: b\nc: [1, 2", "expected ',' or ']', but got '<stream end>' ("),
        ("a: b\nc:\n\t- d", r"found character '\t' that cannot start any token ("),
        ("a: " + "[" * 10**6, "nested too deeply"),
        ("a: " + "[" * 10**4 + "]" * 10**4, "nested too deeply"),
    ],
    ids=["open list", "tab", "deep", "deep and closed"],
)  # fmt: skip
def test_a_fault_is_described_by_pyyaml(text, fault, tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        read(path)
    assert fault in str(raised.value)


def test_nesting_of_100_levels(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text("a: " + "[" * 99 + "]" * 99)
    tree, lines = read(path)
    assert len(lines) == 99
    assert len(str(tree["a"])) == 198
    path.write_text("a: " + "[" * 100 + "]" * 100)
    with pytest.raises(UserError, match="nested too deeply"):
        read(path)
