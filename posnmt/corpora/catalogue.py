"""The catalogue of public corpora, catalogue.yaml: the corpora of the four papers, and how to obtain them."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from posnmt.base.errors import UserError, combined, refuse_unknown
from posnmt.config.yaml import Section, faults, read_yaml
from posnmt.corpora.spec import Columns, Languages, MtEval, Remote, TestSet


class Entry(Section):
    """The description of a corpus, with its location or with instructions how to obtain it."""

    title: str
    pair: Languages = Field(description="the direction of the papers; the other one is available as well")
    corpus: Remote | TestSet | None = None
    licensed: Columns | MtEval | None = Field(None, description="its texts in the distribution for licence holders")
    obtain: str | None = Field(None, description="instead of corpus: how to obtain one that needs a licence")
    mtdata: str | None = Field(None, description="its id in mtdata")
    pairs: int | None = Field(None, description="sentence pairs, empty lines counted")
    megabytes: int | None = Field(None, description="size of the download")
    papers: list[str] = Field([], description="N19, R19, C19a, C19b")
    licence: str
    citation: str

    @model_validator(mode="after")
    def _one_way(self) -> Entry:
        if (self.corpus is None) == (self.obtain is None):
            raise ValueError("an entry has either corpus or obtain")
        if self.licensed is not None and self.obtain is None:
            raise ValueError("a licensed corpus says how to obtain it")
        return self

    def fetchable(self, name: str) -> Remote | TestSet:
        """The location from which to fetch it.

        Raises:
            UserError: it needs a licence; the message says how to obtain it.
        """
        if self.corpus is None:
            raise self.refused(name)
        return self.corpus

    def refused(self, name: str) -> UserError:
        """That it cannot be fetched, and how to obtain it."""
        todo = " ".join(str(self.obtain).split())
        if self.licensed is not None:
            todo = f"{todo}; then `posnmt data fetch {name} --from FOLDER`, once, with the folder of the distribution"
        return UserError(f"{name} cannot be fetched: {self.title}", None, todo)


@cache
def catalogue() -> dict[str, Entry]:
    """Name → entry, in the order of the file."""
    path = Path(str(resources.files("posnmt.corpora") / "catalogue.yaml"))
    tree, lines = read_yaml(path, "catalogue", "the catalogue is a YAML mapping: name: entry")
    try:
        return TypeAdapter(dict[str, Entry]).validate_python(tree)
    except ValidationError as error:
        raise combined(faults(error, Entry, path, lines)) from None


def entry(name: str) -> Entry:
    """The entry with a name.

    Raises:
        UserError: there is none; the message names the most similar one.
    """
    refuse_unknown(name, catalogue(), "corpus of the catalogue")
    return catalogue()[name]


def by_mtdata(identifier: str) -> str | None:
    """The name of the entry with this id in mtdata; None if there is none."""
    return next((name for name, listed in catalogue().items() if listed.mtdata == identifier), None)
