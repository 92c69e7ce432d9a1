"""The catalogue of public corpora, catalogue.yaml: those of the four papers, and how to get the ones with a licence."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from posnmt.config.yaml import Section, faults, read_yaml
from posnmt.corpora.spec import Languages, Remote, TestSet
from posnmt.errors import UserError, raise_all, refuse_unknown


class Entry(Section):
    """A corpus: what it is, and where it is or how to get it."""

    title: str
    pair: Languages = Field(description="the direction that the papers translate; the other one can be had as well")
    corpus: Remote | TestSet | None = None
    obtain: str | None = Field(None, description="instead: how to get what nobody may fetch without asking")
    mtdata: str | None = Field(None, description="what mtdata calls it")
    pairs: int | None = Field(None, description="sentence pairs, blank lines counted")
    megabytes: int | None = Field(None, description="of the download")
    papers: list[str] = Field([], description="N19, R19, C19a, C19b")
    licence: str
    citation: str

    @model_validator(mode="after")
    def _one_way(self) -> Entry:
        if (self.corpus is None) == (self.obtain is None):
            raise ValueError("an entry has either corpus or obtain")
        return self

    def fetchable(self, name: str) -> Remote | TestSet:
        """Where it is to be fetched.

        Raises:
            UserError: it needs a licence; the message says how to get it.
        """
        if self.corpus is None:
            raise UserError(f"{name} cannot be fetched: {self.title}", None, " ".join(str(self.obtain).split()))
        return self.corpus


@cache
def catalogue() -> dict[str, Entry]:
    """Name → entry, in the order of the file."""
    path = Path(str(resources.files("posnmt.corpora") / "catalogue.yaml"))
    tree, lines = read_yaml(path, "catalogue", "the catalogue is a YAML mapping: name: entry")
    try:
        return TypeAdapter(dict[str, Entry]).validate_python(tree)
    except ValidationError as error:
        raise_all(faults(error, Entry, path, lines))
        raise AssertionError from error  # raise_all raised: a ValidationError holds at least one problem


def entry(name: str) -> Entry:
    """The entry of a name.

    Raises:
        UserError: there is none; the message names the nearest.
    """
    refuse_unknown(name, catalogue(), "corpus of the catalogue")
    return catalogue()[name]


def by_mtdata(identifier: str) -> str | None:
    """The name of the entry that mtdata has as well, under this id."""
    return next((name for name, listed in catalogue().items() if listed.mtdata == identifier), None)
