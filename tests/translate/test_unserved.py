"""What an engine serves of the options of search; the others are refused where they are not at their defaults."""

from __future__ import annotations

import dataclasses
from pkgutil import resolve_name

import pytest

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode, Positions, Sampling
from posnmt.deploy.engines.ctranslate2 import CTranslate2Engine
from posnmt.translate.engine import Engine
from posnmt.translate.engines import ENGINES
from posnmt.translate.options import ASKED, EVERYTHING, SPEED_ALONE, named_as_options, refuse_unserved, unserved
from posnmt.translate.requests import Request, Search
from posnmt.translate.terms import Terms
from posnmt.translate.translator import Translator

OTHERS = {
    "beam": 5, "length_penalty": 0.5, "coverage_penalty": 0.2, "max_ratio": 3.0, "max_extra": 9, "max_source": 7,
    "split": "off", "complete": "off", "min_length": 3, "protect": "off", "allow_unk": True, "join": 2,
    "positions": Positions(clip=4), "sampling": Sampling(), "mbr": 4, "batch": 9, "precision": "bf16",
    "cuda_graphs": True,
}  # fmt: skip
"""A value of each option that is not its default."""


def test_engines_name_what_exists():
    assert OTHERS.keys() == Decode.model_fields.keys()
    assert {*Decode.model_fields} <= Translator.serves <= EVERYTHING
    assert CTranslate2Engine.serves <= EVERYTHING
    assert all(callable(resolve_name(path)) for path in ENGINES.values())


@pytest.mark.parametrize(
    "serves", [Translator.serves, CTranslate2Engine.serves, frozenset()], ids=["torch", "ctranslate2", "nothing"]
)
@pytest.mark.parametrize("name", OTHERS)
def test_a_setting_is_served_or_refused_by_its_name(name, serves):
    assert unserved(serves, Decode()) == []
    is_refused = name not in serves and name not in SPEED_ALONE
    assert unserved(serves, Decode(**{name: OTHERS[name]})) == [f"decode.{name}"] * is_refused


def test_what_speed_alone_is_about_is_no_reason_to_refuse():
    assert {"batch", "cuda_graphs"} == SPEED_ALONE


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_for_is_named_as_an_option(name):
    with pytest.raises(UserError) as raised, named_as_options({"mbr", "sampling"}):
        refuse_unserved("the test", EVERYTHING - {name, "mbr", "sampling"}, Decode(mbr=4, sampling=Sampling()), [name])
    assert raised.value.where == f"--sample, --mbr, --{name}"


def test_settings_of_the_configuration_keep_their_names():
    with pytest.raises(UserError) as raised, named_as_options({"mbr"}):
        refuse_unserved("the test", frozenset(), Decode(mbr=4, min_length=2))
    assert raised.value.where == "decode.min_length, --mbr"


class Nothing(Engine):
    """An engine that serves no option, and must not be asked to search."""

    name, who, instead, shorten = "nothing", "nothing here", "leave it out", "shorten it"
    serves = frozenset()
    longest, trained, several = (None, None), None, None

    def score(self, sources, targets, batch=4096):
        raise AssertionError


ASKED_OF_LINES = {"prefix": (Request("a", prefix="b"), "prefix")}
ASKED_OF_CALLS = {
    "terms": ({"terms": Terms.of_mapping({"a": "b"})}, "terms"),
    "aligned": ({"aligned": True}, "alignments"),
}
NO_OPTIONS = {"line", "number", "where", "document", "decode", "nbest", "scored"}


def test_each_field_of_a_request_and_of_a_search_is_an_option_or_known_to_be_none():
    fields = [each.name for kind in (Request, Search) for each in dataclasses.fields(kind)]
    assert {*fields} == {*ASKED_OF_LINES, *ASKED_OF_CALLS} | NO_OPTIONS


@pytest.mark.parametrize("name", [*OTHERS, *ASKED_OF_LINES, *ASKED_OF_CALLS])
def test_an_engine_refuses_what_it_does_not_serve_before_it_searches(name):
    decode, request, options, where = Decode(), Request("a"), {}, f"decode.{name}"
    if name in OTHERS:
        decode = Decode(**{name: OTHERS[name]})
    elif name in ASKED_OF_LINES:
        request, where = ASKED_OF_LINES[name]
    else:
        options, where = ASKED_OF_CALLS[name]
    if name in SPEED_ALONE:
        Nothing.refuse(decode)
        return
    with pytest.raises(UserError) as raised:
        Nothing().translate([request], Search(decode, **options))
    assert (raised.value.what, raised.value.where) == ("not available with nothing here", where)
