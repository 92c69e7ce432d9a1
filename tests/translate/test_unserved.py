"""What an engine serves of the options of search; the others are refused where they are not at their defaults."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode, Positions, Sampling
from posnmt.deploy.engines.ctranslate2 import SERVES
from posnmt.translate.engines import ENGINES
from posnmt.translate.options import ASKED, EVERYTHING, SPEED_ALONE, named_as_options, refuse_unserved, unserved
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
    assert SERVES <= EVERYTHING
    assert all(callable(resolve_name(path)) for path in ENGINES.values())


@pytest.mark.parametrize("serves", [Translator.serves, SERVES, frozenset()], ids=["torch", "ctranslate2", "nothing"])
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
