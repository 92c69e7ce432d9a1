"""YAML by LibYAML and by PyYAML's own parser."""

from pathlib import Path

import pytest
import yaml

import posnmt
from posnmt.base.errors import UserError
from posnmt.config.yaml import override, read_yaml, written_yaml

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


PLAIN = {
    "no": "no", "off": "off", "yes": "yes", "On": "On", "y": "y", "true": True, "False": False,
    "010": 10, "08": 8, "0o10": 8, "0x1F": 31, "+3": 3, "1_000": "1_000", "0b11": "0b11", "1:30": "1:30",
    "1e-3": "1e-3", "1e3": "1e3", "1.0e-3": 1e-3, "2.e3": 2000.0,
    ".5": 0.5, "5.": 5.0, "-.5E2": -50.0, "1:30.5": "1:30.5", ".": ".",
    "2019-01-01": "2019-01-01", "null": None, "~": None, "": None, "Null": None, "=": "=",
}  # fmt: skip
"""Text without quotes, and what it is: as YAML 1.2 says, except that 1e-3 is a text."""


@pytest.mark.parametrize("fast", [True, False], ids=["LibYAML", "PyYAML"])
def test_plain_text_is_what_yaml_1_2_says(fast, tmp_path, monkeypatch):
    monkeypatch.setattr(yaml, "__with_libyaml__", fast and yaml.__with_libyaml__)
    path = tmp_path / "file.yaml"
    path.write_text("".join(f"key{number}: {text}\n" for number, text in enumerate(PLAIN)))
    values = list(read(path)[0].values())
    assert [(value, type(value)) for value in values] == [(value, type(value)) for value in PLAIN.values()]
    for text, value in PLAIN.items():
        if text:
            assert override({}, f"key={text}") == {"key": value}


def test_keys_are_text(tmp_path):
    """`no` is the code of a language, and `off` a choice."""
    path = tmp_path / "file.yaml"
    path.write_text("no: nb\noff: [no, off]\n")
    assert read(path)[0] == {"no": "nb", "off": ["no", "off"]}


@pytest.mark.parametrize("value", [*PLAIN, "1e5", "0o7", "1.", "<<", 1e-5, 1e22, 10, -0.5, True, None, ["no", "1e3"]])
def test_what_is_written_is_read_by_either_version(value, tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(written_yaml({"key": value}))
    assert read(path)[0] == {"key": value} == yaml.safe_load(path.read_text())


@pytest.mark.parametrize("text", ["a: {b: 1, b: 2}", "a: {b: 1, 'b': 2}", "a: [{b: 1, b: 1}]"])
def test_a_key_that_occurs_twice_on_a_line(text, tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(f"c: 1\n{text}\n")
    with pytest.raises(UserError) as raised:
        read(path)
    assert (raised.value.what, raised.value.where) == ("b occurs twice, on line 2", f"{path}:2")
