"""No boolean is a number, no number is a boolean, and no text is either: in every field of every section."""

from __future__ import annotations

import importlib
import math
import pkgutil
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from pydantic import ValidationError

import posnmt
from posnmt.api.arguments import checked
from posnmt.base.errors import UserError
from posnmt.config.numbers import in_digits
from posnmt.config.schema import Config, Model, Positive, Sampling, Train
from posnmt.config.yaml import Section
from posnmt.evaluation.analyse.swap import parse_swapped
from posnmt.run.resolve import load
from posnmt.study.sweep import Dimension, _value
from posnmt.translate.options import with_options
from posnmt_position.options import Options

PACKAGES = ("posnmt.config", "posnmt.corpora", "posnmt.model", "posnmt.study", "posnmt_position")
BAD = {int: (True, False, "1", 1.5), float: (True, False, "1"), bool: (1, 0, 1.0, "true", "yes")}
CONFIG = """\
data: {train: {source: a, target: b}}
train:
  steps: 10
"""


def sections(kind=Section):
    """Every section and every class of options of posnmt."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    found, left = [], [kind]
    while left:
        for each in left.pop().__subclasses__():
            left.append(each)
            found.append(each)
    return sorted(
        {each for each in found if each.__module__.startswith(("posnmt.", "posnmt_position."))},
        key=lambda each: each.__qualname__,
    )


def wrong(annotation) -> list[Any]:
    """Values that a type must refuse, since they have a boolean, a number or a text in place of one another."""
    if annotation in BAD:
        return list(BAD[annotation])
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return wrong(parts[0])
    if origin in (Union, types.UnionType):
        return [value for part in parts for value in wrong(part) if not any(accepts(part, value) for part in parts)]
    if origin is list:
        return [[value] for value in wrong(parts[0])]
    if origin is tuple:
        return [(value,) * (1 if parts[-1] is ... else len(parts)) for value in wrong(parts[0])]
    if origin is dict:
        key = get_args(parts[0])[0] if get_origin(parts[0]) is Literal else "a"
        return [{key: value} for value in wrong(parts[1])]
    return []


def accepts(annotation, value) -> bool:
    """Whether a type is exactly that of a value."""
    leaf = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return leaf is type(value)


FIELDS = [
    (kind, name, value)
    for kind in [*sections(), *sections(Options)]
    for name, annotation in get_type_hints(kind).items()
    if name in getattr(kind, "model_fields", ()) or kind in sections(Options)
    for value in wrong(annotation)
]


def refuses(kind, name, value) -> bool:
    """Whether a section, or a class of options, has a fault for a field's value."""
    if issubclass(kind, Options):
        return kind.faults("options", {name: value}) != []
    try:
        kind.model_validate({name: value})
    except ValidationError as error:
        return any(problem["loc"][:1] == (name,) for problem in error.errors())
    return False


def test_every_field_of_numbers_or_booleans_refuses_the_other():
    fields = {(kind.__qualname__, name) for kind, name, _ in FIELDS}
    assert {("Train", "minutes"), ("Subword", "shared"), ("Sweep", "seeds"), ("Decode", "beam")} <= fields
    assert {("Relative.Settings", "values"), ("Settings", "share")} <= fields
    assert len(fields) > 150
    assert [(kind, name, value) for kind, name, value in FIELDS if not refuses(kind, name, value)] == []


def test_numbers_are_still_numbers():
    train = Train(steps=np.int64(3), learning_rate=1, minutes=np.float32(0.5), adam_betas=[0.5, 0.25], shard=True)
    assert (train.steps, train.learning_rate, train.minutes, train.adam_betas) == (3, 1.0, 0.5, (0.5, 0.25))
    assert (type(train.steps), type(train.learning_rate), train.shard) == (int, float, True)
    for steps in (3.0, "1e3"):
        with pytest.raises(ValidationError):
            Train(steps=steps)
    assert Train(steps=1, learning_rate="2e-3").learning_rate == 0.002


@pytest.mark.parametrize(
    ("setting", "kind", "got"),
    [
        ("minutes: true", "number", "True"),
        ("seed: true", "whole number", "True"),
        ("minutes: yes", "number", "'yes'"),
        ("seed: 1.0", "whole number", "1.0"),
        ("seed: '1'", "whole number", "'1'"),
        ("minutes: 1:30", "number", "'1:30'"),
        ("seed: 1_000", "whole number", "'1_000'"),
        ("adam_betas: [true, 0.9]", "number", "True"),
    ],
)
def test_a_fault_says_where_and_what_is_expected(tmp_path, setting, kind, got):
    path = tmp_path / "config.yaml"
    path.write_text(f"{CONFIG}  {setting}\n")
    with pytest.raises(UserError) as raised:
        load(path)
    place = setting.partition(":")[0] + (".0" if "[" in setting else "")
    assert raised.value.lines == [f"train.{place}: a {kind} is needed, got {got} ({path}:4)"]
    path.write_text(CONFIG)
    with pytest.raises(UserError) as raised:
        load(path, [f"train.{setting.replace(': ', '=', 1)}"])
    assert raised.value.lines[0].startswith(f"train.{place}: a {kind} is needed, got {got}")


@pytest.mark.parametrize("written", ["1", "0", "yes", "off", "'true'"])
def test_a_fault_of_a_boolean_says_what_to_write(tmp_path, written):
    path = tmp_path / "config.yaml"
    path.write_text(f"{CONFIG}  compile: {written}\n")
    with pytest.raises(UserError) as raised:
        load(path)
    assert raised.value.todo == "write true or false"


def test_options_of_schemes_and_architectures(tmp_path):
    path = tmp_path / "config.yaml"
    for model, fault in [
        (
            "{encoder: {position: [{scheme: relative, distance: true}]}}",
            "relative.distance: Input should be a valid int",
        ),
        ("{architecture: convs2s, options: {kernels: [true]}}", "Input should be a valid integer"),
    ]:
        path.write_text(f"{CONFIG}model: {model}\n")
        with pytest.raises(UserError, match=fault):
            load(path)


@pytest.mark.parametrize("written", ["1e4", "'1e4'", '"+1E4"', "10000.0"])
def test_what_is_stored_is_the_number(tmp_path, written):
    """Not its text, in options of schemes and architectures as in all other settings."""
    path = tmp_path / "config.yaml"
    model = f"{{encoder: {{position: [{{scheme: rope, base: {written}}}]}}}}"
    path.write_text(f"{CONFIG}  learning_rate: {written}\nmodel: {model}\n")
    config = load(path)
    for number in (config.train.learning_rate, config.model.encoder.position[0].options["base"]):
        assert (number, type(number)) == (10_000.0, float)
    assert config.model_dump()["model"]["encoder"]["position"] == [{"scheme": "rope", "base": 10_000.0}]
    options = Model(options={"share": written.strip("'\"")}).options
    assert options["share"] == (10_000.0 if "e" in written.lower() else written)


def test_whole_numbers_have_a_limit_and_no_value_is_no_number(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    endless = [name for name, field in Train.model_fields.items() if field.annotation in (int, Positive | None)]
    assert {"steps", "epochs", "batch", "seed", "evaluate_every", "patience"} <= {*endless}
    for name in endless:
        beyond = 2**63 if name == "seed" else 2**31
        limit = "of 100,000 or less" if name == "accumulate" else "below .*"
        with pytest.raises(UserError, match=f"^train.{name}: a number {limit} is needed, got {beyond}") as raised:
            load(path, [f"train.{name}={beyond}"])
        assert len(raised.value.lines) == 1
    assert load(path, [f"train.steps={2**31 - 1}"]).train.steps == 2**31 - 1
    for setting in ("train.steps=", "train.steps= ", "train="):
        with pytest.raises(UserError, match=r"^train(\.steps)? has no value \(--set\); write train.*=null for none"):
            load(path, [setting])
    assert load(path, ["train.steps=null", "train.epochs=1"]).train.steps is None


EXTREMES = (2**31, 2**63, 1e308, -1, -(2**63), -1e308, math.nan, math.inf)


def numbers(annotation) -> set[type]:
    """The types of the numbers in a type."""
    if annotation in (int, float):
        return {annotation}
    return {kind for part in get_args(annotation) if not isinstance(part, str) for kind in numbers(part)}


# The values of a sweep are checked as values of the settings that they are for.
NUMERIC = sorted(
    {
        (kind.__module__, kind.__qualname__, name): (kind, name)
        for kind in [*sections(), *sections(Options)]
        for name, annotation in get_type_hints(kind).items()
        if (name in getattr(kind, "model_fields", ()) or kind in sections(Options)) and numbers(annotation)
        if (kind, name) != (Dimension, "values")
    }.items()
)


@pytest.mark.parametrize(("kind", "name"), [each for _, each in NUMERIC], ids=[f"{q}.{n}" for (_, q, n), _ in NUMERIC])
def test_no_number_is_extreme(kind, name):
    """Seeds may have 63 or 32 bits. Other numbers that nobody needs are refused with the name of their field."""
    whole = 1e12 if float in numbers(get_type_hints(kind)[name]) else 2**31
    for value in EXTREMES:
        for given in (value, [value], (value, value), {"a": value}):
            if refuses(kind, name, given):
                continue
            assert abs(value) < {(Train, "seed"): 2**63, (Sampling, "seed"): 2**32}.get((kind, name), whole), given


def test_arguments_of_functions():
    decode = Config.model_validate({"data": {"train": {"tsv": "a"}}, "train": {"steps": 1}}).decode
    assert with_options(decode, {"beam": np.int64(2)}).beam == 2
    for value in (True, 2.0, "2"):
        with pytest.raises(UserError, match="beam: a whole number is needed"):
            with_options(decode, {"beam": value})
        with pytest.raises(UserError, match="a whole number is needed"):
            checked(value, int, "samples")
    for minutes in (True, "1"):
        with pytest.raises(UserError, match=r"a number is needed; got .* \(minutes\)"):
            posnmt.train({"data": {"train": {"tsv": "a"}}}, minutes=minutes)


def test_a_value_of_a_sweep_keeps_its_type():
    written = [True, 2, 2.5, "word"]
    values = Dimension.model_validate({"of": "data.max_length", "values": written}).values["smoke"]
    assert [type(value) for value in values] == [type(value) for value in written]


def test_a_number_in_text_is_written_in_the_digits_of_a_configuration():
    assert [in_digits(text) for text in ("10", "-1.5e-3", "inf")] == ["10", "-1.5e-3", "inf"]
    for text in ("1_0", "１", "٣"):
        int(text)  # Python reads it
        with pytest.raises(ValueError, match="in the digits 0 to 9"):
            in_digits(text)
    assert list(parse_swapped(["a:0.1=x"], ["a"])) == [("a", 0.1)]
    with pytest.raises(UserError, match="above 0"):
        parse_swapped(["a:0.0_1=x"], ["a"])
    assert _value("10") == 10
    assert _value("1_0") == "1_0"
