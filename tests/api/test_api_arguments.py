"""Every argument of a public function that is a number, a boolean, a text or one of some names refuses the others."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypedDict, Union, Unpack, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import posnmt
from posnmt.api.arguments import typed

NEEDED: dict[str, Any] = {
    "lines": ["lo"], "pairs": [("lo", "mo")], "source": "lo", "target": "mo", "sources": ["lo"], "targets": ["mo"],
    "reference": ["lo"], "outputs": {"a": ["lo"]}, "out": "report",
}  # fmt: skip
"""Arguments with which the functions below can be called."""

OTHERS = {
    bool: (1, 0, 1.0, "no", "yes", ""), int: (True, False, "1", 1.5), float: (True, False, "1"), str: (True, 5),
    Path: (True, 5),
}  # fmt: skip
"""Types -> values of other types that could be taken for theirs."""


def wrong(hint: Any) -> list[Any]:
    """Values that a type must refuse, if it has one of the types above."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else [hint]
    if any(get_origin(part) is Literal for part in parts):
        return ["nothing", 5, True]
    if not set(parts) <= {*OTHERS, type(None)}:
        return []
    return [value for part in parts for value in OTHERS.get(part, ())]


def functions(trained) -> dict[str, Any]:
    """The public functions, and the methods of what they return."""
    model = posnmt.load(trained / "first")
    analysis = posnmt.analyse(["lo"], ["lo"], {"a": ["lo"]}, samples=0)
    owned = {
        f"{type(value).__name__}.{name}": method
        for value in (model, analysis)
        for name, method in inspect.getmembers(value, inspect.ismethod)
        if not name.startswith("_")
    }
    from posnmt.api.analyse import analyse
    from posnmt.api.train import train

    return {"load": posnmt.load, "train": train, "analyse": analyse} | owned


def test_every_plain_argument_refuses_values_of_other_types(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accepted, seen = [], set()
    for called, function in functions(trained).items():
        parameters = inspect.signature(function).parameters
        hints = {name: each.annotation for name, each in parameters.items()} | get_type_hints(function)
        needed = {name: NEEDED[name] for name in parameters if name in NEEDED and called != "train"}
        if called == "load":
            needed = {"runs": trained / "first"}
        for name in parameters:
            for value in wrong(hints[name]):
                seen.add((called, name))
                try:
                    function(**{**needed, name: value})
                    accepted.append((called, name, value))
                except posnmt.UserError as error:
                    if name not in str(error):
                        accepted.append((called, name, value, str(error)))
    assert accepted == []
    assert list(tmp_path.iterdir()) == []
    assert {
        ("load", "allow_plugins"), ("load", "interpolate"), ("load", "checkpoint"), ("train", "resume"),
        ("train", "allow_plugins"), ("train", "minutes"), ("train", "out"), ("train", "show_progress"),
        ("analyse", "show_progress"), ("TrainedModel.hypotheses", "nbest"), ("TrainedModel.hypotheses", "alignments"),
        ("TrainedModel.hypotheses", "split"), ("TrainedModel.score", "batch"), ("TrainedModel.encode", "batch"),
        ("TrainedModel.positions", "length"), ("TrainedModel.distance_bias", "side"), ("Analysis.rows", "table"),
        ("Analysis.report", "examples"),
    } <= seen  # fmt: skip
    assert len(seen) > 50


def test_checked_functions_take_what_their_types_allow():
    @typed
    def example(number: int, share: float = 1.0, path: str | Path | None = None, lines: list[Any] | None = None):
        """An example."""
        return number, share, path, lines

    number, share, path, lines = example(np.int64(3), share=np.float32(0.5), path="a", lines="as it is")
    assert (number, share, path, lines) == (3, 0.5, Path("a"), "as it is")
    assert (type(number), type(share)) == (int, float)
    assert example(3) == (3, 1.0, None, None)
    assert example.__doc__ == "An example."
    assert list(inspect.signature(example).parameters) == ["number", "share", "path", "lines"]
    with pytest.raises(TypeError, match="missing a required argument: 'number'"):
        example()


class Keys(TypedDict, total=False):
    """Keywords of an example."""

    share: float | None
    path: str | Path | None


def test_keywords_of_a_typed_dictionary_are_arguments_like_others():
    @typed
    def example(number: int, **options: Unpack[Keys]):
        return number, options

    assert example(1, share=np.float32(0.5), path="a") == (1, {"share": 0.5, "path": Path("a")})
    parameters = inspect.signature(example).parameters
    assert [(name, parameters[name].default) for name in ("share", "path")] == [("share", None), ("path", None)]
    assert get_type_hints(example)["path"] == str | Path | None
    with pytest.raises(posnmt.UserError, match="share"):
        example(1, share="much")
    with pytest.raises(TypeError, match="unexpected keyword argument 'shre'"):
        example(1, shre=0.5)
