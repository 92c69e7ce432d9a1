"""YAML files written by users: read with the line of every key, and checked by pydantic models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema
from yaml.constructor import ConstructorError

from posnmt.base.errors import LONGEST_SHOWN, UserError, existing_file, nearest, quoted, raise_all
from posnmt.config.numbers import exact

MOST_BYTES = 2**22
"""The largest file that is read: a fault at the end of 100 kB takes a second to find."""

MOST_LEVELS = 100
"""The deepest nesting: LibYAML calls itself once a level, without end."""

MOST_BITS = 1024
"""The largest whole number: Python refuses to write down those of thousands of digits."""

MOST_VALUES = 100_000
"""The most values in a file. An alias counts as all the values that it stands for: ten lines can stand for billions."""

DEVICE = "a GPU is used if PyTorch sees one; the variable CUDA_VISIBLE_DEVICES names it, or nothing for the CPU"
"""What to do about a setting that people look for."""

Lines = dict[tuple[str, ...], int]
"""Key path -> 1-based line."""


class Section(BaseModel):
    """A group of settings: frozen; an unknown key is an error, and so is a boolean or a text in place of a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        exact(handler.resolve_ref_schema(schema))
        return schema


def read_yaml(path: str | Path, role: str, form: str) -> tuple[dict[str, Any], Lines]:
    """The mapping in a YAML file, and the line of each of its keys.

    Args:
        role: name of the file in messages, such as "config".
        form: description of the expected content, for a file without a mapping.

    Raises:
        UserError: no such file, too large, not UTF-8, not YAML, no mapping, or a key that occurs twice.
    """
    path = existing_file(path, role)
    if path.stat().st_size > MOST_BYTES:
        raise UserError(f"{role} has more than {MOST_BYTES:,} bytes", path, "name a file that a person wrote")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{role} is not UTF-8 at byte {error.start}", path, "save it as UTF-8") from None
    try:
        node = _compose(text)
        lines, twice = _key_lines(node), list(_twice(node, path))  # before merge keys (`<<`) are resolved
        tree = _construct(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UserError(f"not valid YAML: {_problem(error)}", where, "correct the YAML") from None
    if not isinstance(tree, dict):
        raise UserError(form, path)
    raise_all(twice)
    return tree, lines


_PLAIN = {
    "bool": ("true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": ("[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": ("<<", "<"),
}
"""The types of text without quotes in YAML 1.2: a regular expression, and the characters that a match begins with.

By YAML 1.1, which PyYAML reads, `no` and `off` are booleans, `010` is eight, and `1:30` is ninety. By YAML 1.2,
`1e-3` is a number; here it stays a text, which settings that are numbers accept (`posnmt.config.numbers`).
"""


def _reading_1_2(kind: Any, alone: bool = True) -> Any:
    """Make a class of PyYAML read plain text as YAML 1.2 does; or, if not `alone`, as either version does."""
    if alone:
        kind.yaml_implicit_resolvers = {}
    for name, (expression, first) in _PLAIN.items():
        kind.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(rf"(?:{expression})\Z"), list(first))
    return kind


class _Loader(yaml.SafeLoader):
    """PyYAML's loader, which reports every value that it cannot construct as a fault of the YAML, with its line."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int) and value.bit_length() > MOST_BITS:
                raise OverflowError("it is too large")
            return value
        except (yaml.YAMLError, RecursionError):
            raise
        except Exception as error:  # impossible dates, numbers of thousands of digits, an empty !!int
            what = f"{quoted(node.value)} " if isinstance(node, yaml.ScalarNode) else ""
            kind = str(node.tag).rpartition(":")[2]
            raise ConstructorError(None, None, f"{what}is no {kind}: {error}", node.start_mark) from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number; one that begins with 0 is decimal."""
        text = self.construct_scalar(node)
        return int(text, 0 if text.startswith(("0o", "0x")) else 10)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_reading_1_2(_Loader)
_FastLoader = _reading_1_2(type("_FastLoader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {}))
"""The parser of LibYAML."""


_Dumper = _reading_1_2(type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {}), alone=False)
"""Quotes text that either version of YAML would read as something else; uses LibYAML, which is ten times as fast."""
_SlowDumper = _reading_1_2(type("_SlowDumper", (yaml.SafeDumper,), {}), alone=False)


def written_yaml(tree: Any) -> str:
    """A tree of plain values as YAML, its keys in their order."""

    def written(dumper: Any) -> str:
        text: str = yaml.dump(tree, Dumper=dumper, sort_keys=False, allow_unicode=True, width=100)
        return text

    try:
        return written(_Dumper)
    except UnicodeEncodeError:  # a file name that is not UTF-8, which only PyYAML can write, with escapes
        return written(_SlowDumper)


class _TooMany(Exception):
    """A document has more than `MOST_VALUES` values."""


def _compose(text: str) -> yaml.Node | None:
    """The YAML document in a text, if it is not too large.

    Raises:
        YAMLError: the text is not YAML, refers to itself, is nested too deeply, or has more than `MOST_VALUES` values.
    """
    try:
        try:
            node = _compose_fast(text)
        except yaml.YAMLError:  # PyYAML's own parser describes the fault better
            node = yaml.compose(text, Loader=_Loader)
        if _values(node, {}) > MOST_VALUES:
            raise _TooMany
    except _TooMany:
        what = f"it has more than {MOST_VALUES:,} values, each alias counted as what it stands for"
        raise yaml.YAMLError(what) from None
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply, or a part of it refers to itself") from None
    except (ValueError, OverflowError):  # \U00110000, and version numbers of many digits
        raise yaml.YAMLError("a character that does not exist, or a number that is too large") from None
    return node


def _compose_fast(text: str) -> yaml.Node | None:
    """The document, read by LibYAML, which is ten times as fast, if PyYAML was built with it.

    Raises:
        YAMLError: LibYAML is not available or reports a fault.
        RecursionError: it has more than `MOST_LEVELS`.
        _TooMany: it has too many values. They are counted before any is kept, which takes a kilobyte each.
    """
    if not yaml.__with_libyaml__:
        raise yaml.YAMLError
    level = values = 0
    for event in yaml.parse(text, Loader=_FastLoader):
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        values += isinstance(event, yaml.NodeEvent)
        if level > MOST_LEVELS:
            raise RecursionError
        if values > MOST_VALUES:
            raise _TooMany
    return yaml.compose(text, Loader=_FastLoader)


def _construct(node: yaml.Node | None) -> Any:
    return None if node is None else _Loader("").construct_document(node)


def _values(node: Any, known: dict[int, int]) -> int:
    """The number of values in a document, with aliases written out.

    Args:
        known: id of a node -> its number of values; 0 while the node is being counted.

    Raises:
        RecursionError: a node is a part of itself.
    """
    if id(node) in known:
        if not known[id(node)]:
            raise RecursionError
        return known[id(node)]
    known[id(node)] = 0
    count = 1
    if isinstance(node, yaml.MappingNode):
        count += sum(_values(key, known) + _values(value, known) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        count += sum(_values(value, known) for value in node.value)
    known[id(node)] = count
    return count


def _problem(error: yaml.YAMLError) -> str:
    """The message of a fault of PyYAML, without the place."""
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)


def _twice(node: Any, path: Path) -> Iterator[UserError]:
    """A fault for every key that occurs twice in one mapping, of which YAML would silently take the last."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line, name = key.start_mark.line + 1, str(key.value)
            if name in seen:
                lines = f"on lines {seen[name]} and {line}" if seen[name] != line else f"on line {line}"
                what = f"{name} occurs twice, {lines}"
                yield UserError(what, f"{path}:{line}", "leave one of them out, or give it another name")
            seen.setdefault(name, line)
            yield from _twice(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _twice(value, path)


def override(tree: dict[str, Any], setting: str) -> dict[str, Any]:
    """The tree with one `key.key=value` applied; a section that YAML aliases share is changed in one place only."""
    key, sign, value = setting.partition("=")
    if not sign or not key:
        raise UserError(
            f"a setting is written key.key=value; got {quoted(setting)}", "--set", "for example train.steps=1000"
        )
    if not value.strip():
        key = key if len(key) <= LONGEST_SHOWN else quoted(key)
        raise UserError(f"{key} has no value", "--set", f"write {key}=VALUE, or {key}=null for none")
    names = key.strip().split(".")
    if len(names) > MOST_LEVELS:
        raise UserError(f"{quoted(key)} has more than {MOST_LEVELS} parts", "--set", "write key.key=value")
    try:
        change = _construct(_compose(value))
    except yaml.YAMLError as error:
        raise UserError(
            f"the value of {key} is not valid YAML: {_problem(error)}; got {quoted(value)}", "--set"
        ) from None
    section: Any = tree
    for name in names[:-1]:
        section = section.get(name, {})
        if not isinstance(section, dict):
            raise UserError(f"{key} is not inside a section", "--set")
    for name in reversed(names):
        change = {name: change}
    return merge(tree, change)


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Two nested dictionaries merged; values of `above` override those of `below`."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def expand(text: str, where: str) -> str:
    """`text` with ${NAME} and ${NAME:-default} replaced from the environment, as a path.

    Raises:
        UserError: a variable is not set, or the path has a character that no path may have.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        setting = os.environ.get(name, default)
        if setting is None:
            raise UserError(f"environment variable {name} is not set", where, f"set {name}, or write the path")
        return setting

    path = os.path.expanduser(re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}", value, text))
    try:
        if b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise UserError(f"a path has a character that no file name may have: {quoted(path)}", where, "write another path")


def faults(error: ValidationError, root: type[BaseModel], path: Path | None, lines: Lines) -> list[UserError]:
    """Every problem of a pydantic error as a sentence with key, rule, value and line.

    Args:
        root: the validated model, for the names of known keys.
        path, lines: the file and the lines of its keys.
    """
    return [_fault(problem, root, path, lines) for problem in error.errors()]


_NEEDED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of {ge} or more",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of {le} or less",
    "model_type": "a section of settings",
    "list_type": "a list",
    "string_type": "a text",
}
"""Type of a pydantic error -> what is needed, in the words of the command line's options."""


def rule(problem: Any) -> str:
    """What the value of a pydantic error should be, as a sentence without its first capital."""
    if problem["type"] in _NEEDED:
        given = {name: each for name, each in problem.get("ctx", {}).items() if isinstance(each, int | float)}
        limits = {name: format(each, "," if isinstance(each, int) else "g") for name, each in given.items()}
        return f"{_NEEDED[problem['type']].format(**limits)} is needed"
    return f"{problem['msg'][0].lower()}{problem['msg'][1:]}"


def _fault(problem: Any, root: type[BaseModel], path: Path | None, lines: Lines) -> UserError:
    """A problem of a pydantic error as a sentence with key, rule, value and line."""
    keys = tuple(str(part) for part in problem["loc"])
    name = ".".join(keys) or "the file"
    value = problem.get("input")
    shown = "" if isinstance(value, dict) else f", got {quoted(value)}"
    todo = None
    if problem["type"] == "extra_forbidden":
        known = _known_keys(root, keys[:-1])
        near = nearest(keys[-1], known) or min(
            _elsewhere(root, keys[-1]), key=lambda found: found.count("."), default=""
        )
        what = f"unknown key {name}"
        todo = f"did you mean {near!r}?" if near else f"known keys here: {', '.join(known)}" if known else None
        todo = DEVICE if not near and keys[-1] in ("device", "gpu", "gpus", "cuda") else todo
    elif problem["type"] == "missing":
        what, todo = f"{name} is missing", "add it"
    elif problem["type"] == "value_error":
        what = f"{name}: {problem['ctx']['error']}"
    else:
        what = f"{name}: {rule(problem)}{shown}"
        todo = "write true or false" if problem["type"] == "bool_type" else None
    return UserError(what, place(keys, path, lines), todo)


def _elsewhere(section: Any, key: str, before: str = "") -> Iterator[str]:
    """The dotted keys of a name in all sections within a section."""
    for name, field in section.model_fields.items():
        inner = _section_of(field.annotation)
        if name == key:
            yield f"{before}{name}"
        elif isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _elsewhere(inner, key, f"{before}{name}.")


def place(keys: tuple[str, ...], path: Path | None, lines: Lines) -> str | None:
    """`file:line` of a key, or of the innermost section around it."""
    while keys and keys not in lines:
        keys = keys[:-1]
    if path is None:
        return None
    return f"{path}:{lines[keys]}" if keys else str(path)


def _known_keys(root: type[BaseModel], keys: tuple[str, ...]) -> list[str]:
    """The known keys of the section at a key path, as they are written; empty if there is no such section."""
    section: Any = root
    for key, following in pairwise((*keys, "")):
        if isinstance(section, type) and issubclass(section, BaseModel):
            field = section.model_fields.get(key)
            section = None if field is None else _section_of(field.annotation, following.isdigit())
        else:  # a mapping from the user's names to sections, or a list of sections
            section = _section_of(get_args(section)[-1]) if get_origin(section) in (dict, list) else None
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        return []
    return [field.alias or name for name, field in section.model_fields.items()]


def _section_of(annotation: Any, listed: bool = False) -> Any:
    """The section, or mapping or list of sections, in a type or its alternatives; None if there is none.

    Args:
        listed: whether a list is looked for first.
    """
    choices = [annotation, *(() if get_origin(annotation) in (dict, list) else get_args(annotation))]
    if listed:
        choices = sorted(choices, key=lambda kind: get_origin(kind) is not list)
    return next(
        (
            kind for kind in choices
            if get_origin(kind) in (dict, list) or (isinstance(kind, type) and issubclass(kind, BaseModel))
        ),
        None,
    )  # fmt: skip


def _key_lines(node: Any, prefix: tuple[str, ...] = ()) -> Lines:
    """Key path → 1-based line, for every key of a composed YAML document."""
    lines: Lines = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            path = (*prefix, str(key.value))
            lines[path] = key.start_mark.line + 1
            lines.update(_key_lines(value, path))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            path = (*prefix, str(index))
            lines[path] = value.start_mark.line + 1
            lines.update(_key_lines(value, path))
    return lines
