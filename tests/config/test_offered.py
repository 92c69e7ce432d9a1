"""The options of search have one range: what the command line and requests take is what the configuration takes."""

from __future__ import annotations

import click
import pytest
from pydantic import ValidationError

from posnmt.cli.faults import in_words
from posnmt.cli.search import search_options
from posnmt.config.marks import On, kind, offered
from posnmt.config.schema import Decode, Sampling
from posnmt.deploy.server.own import OPTIONS, Query

PROBES = [
    *("-1", "0", "1e-9", "0.5", "1", "2", "9.99", "10", "10.01", "1000", "1001", "100000000", "100000001"),
    *(
        "2147483647",
        "2147483648",
        "4294967295",
        "4294967296",
        "1e12",
        "1e13",
        "1e308",
        "nan",
        "auto",
        "off",
        "huge",
        "as-trained",
        "fp32",
        "bf16",
        "fp16",
    ),
]
"""Values at and beside the limits of the options."""

ON_COMMANDS = {each.name: each for each in in_words(click.Command("x", params=search_options("cli"))).params}


def takes(section: type, name: str, text: str) -> bool:
    """Whether a configuration takes a value, read as the command line reads it."""
    number = kind(section.model_fields[name]).types[:1]
    try:
        section.model_validate({name: number[0](text) if number and number[0] in (int, float) else text})
    except (ValueError, ValidationError):
        return False
    return True


def converts(option: click.Parameter, text: str) -> bool:
    try:
        option.type.convert(text, option, None)
    except click.BadParameter:
        return False
    return True


@pytest.mark.parametrize(
    ("section", "name"),
    [
        (section, name)
        for section in (Decode, Sampling)
        for name, field, on in offered(section)
        if section is Sampling or (on.cli and not on.flag and not {bool, list[str]} & {*kind(field).types})
    ],
)
def test_the_command_line_takes_what_a_configuration_takes(section, name):
    taken = {text for text in PROBES if converts(ON_COMMANDS[name], text)}
    assert taken == {text for text in PROBES if takes(section, name, text)}
    assert 0 < len(taken) < len(PROBES)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_request_takes_what_a_configuration_takes(name):
    number = kind(Decode.model_fields[name]).types
    for text in PROBES:
        try:
            value = number[0](text) if number else text
        except ValueError:
            continue
        try:
            taken = getattr(Query.model_validate({"text": "lo", name: value}), name) == value
        except ValidationError:
            taken = False
        assert taken == takes(Decode, name, text), text


def test_a_field_without_a_mark_is_an_option_of_the_command_line_and_of_python():
    marks = {name: on for name, _, on in offered(Decode)}
    assert marks["length_penalty"] == On()
    assert (On().cli, On().python, On().server) == (True, "call", False)
    assert {name for name, _, on in offered(Decode, lambda on: on.server)} == {"beam", "split", "complete", "precision"}
    assert [*OPTIONS] == ["beam", "split", "complete"]
