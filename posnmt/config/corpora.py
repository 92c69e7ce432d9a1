"""The training text of a configuration: a corpus, or a list of corpora with their weights, marks and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from posnmt.config.yaml import Section


class Corpus(Section):
    """Aligned text: two files, or one TSV file (source, target, optional document id). Plain, .gz or .xz."""

    source: str | None = Field(None, description="source text, one sentence a line")
    target: str | None = Field(None, description="target text, line by line the translation of source")
    tsv: str | None = Field(None, description="instead: one file, source <tab> target [<tab> document id]")
    documents: str | None = Field(
        None,
        description="document ids, one a line; if a line contains several fields with spaces between them, the first "
        "one counts",
    )

    @model_validator(mode="after")
    def _one_form(self) -> Corpus:
        self._refuse_two_forms()
        return self

    def _refuse_two_forms(self) -> None:
        if self.tsv is not None:
            if self.source is not None or self.target is not None or self.documents is not None:
                raise ValueError("give either tsv, or source and target, not both")
        elif self.source is None or self.target is None:
            raise ValueError("give source and target (two aligned files), or tsv (one file)")


FORMATS = {".tsv": "tsv", ".jsonl": "jsonl", ".parquet": "parquet", ".tmx": "tmx"}
"""Ending of a file with both sides -> its format; those of text may be compressed (.gz, .xz)."""
_MARK = re.compile(r"[^\w\s\u2581\u2585](?=[^\s\u2581\u2585]*\w)[^\s\u2581\u2585]*[^\w\s\u2581\u2585]")
"""A mark of a corpus: one word with a sign at both ends, so that no word of the text has it inside."""
_SPECIAL_MARKS = ("<s>", "</s>", "<unk>", "<pad>")
LONGEST_MARK = 40
"""Characters of the longest mark of a corpus."""
MOST_COLUMNS = 100_000
"""The largest number of a column of TSV."""


def format_of(name: str) -> str:
    """The format of a file with both sides, by its name: one of the values of `FORMATS`.

    Raises:
        ValueError: no format has this ending.
    """
    compressed = re.search(r"\.[gx]z$", name, re.IGNORECASE)
    plain = name[: compressed.start()] if compressed else name
    kind = next((kind for ending, kind in FORMATS.items() if plain.lower().endswith(ending)), None)
    if kind is None:
        endings = ", ".join(FORMATS)
        raise ValueError(f"the name of the file must end in {endings}, or in these and .gz or .xz; got {name!r}")
    if compressed and kind == "parquet":
        raise ValueError(f"a Parquet file is compressed inside: unpack it, and name it without {compressed[0]}")
    return kind


class Fields(Section):
    """Where a file has its texts: numbers of columns of TSV from 1, names of fields, or language codes of TMX."""

    source: str | int = Field(description="the source text, such as 1, en or translation.en")
    target: str | int = Field(description="the target text, such as 2, de or translation.de")
    document: str | int | None = Field(None, description="the document id, if there is one; TMX has none")

    @field_validator("source", "target", "document", mode="wrap")
    @classmethod
    def _name_or_number(cls, value: Any, _: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if info.field_name == "document" and value is None:
            return None
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_COLUMNS
        if not is_number and (not isinstance(value, str) or value == ""):
            raise ValueError(f"a name, or the number of a column from 1 to {MOST_COLUMNS:,}, is needed; got {value!r}")
        return value

    @property
    def names(self) -> tuple[str | int, ...]:
        """The names of those that are set."""
        return tuple(name for name in (self.source, self.target, self.document) if name is not None)

    @model_validator(mode="after")
    def _distinct(self) -> Fields:
        if len(set(map(str, self.names))) < len(self.names):
            raise ValueError("source, target and document must be different fields")
        return self


class ListedCorpus(Corpus):
    """A corpus of a list: as any corpus, or a file with both sides; with a weight, a mark, and a time in training."""

    file: str | None = Field(
        None,
        description="instead: a file with both sides, whose name ends in .tsv, .jsonl (JSON Lines), .parquet or .tmx; "
        "all but Parquet also with .gz or .xz",
    )
    fields: Fields | None = Field(
        None,
        description="where file has its texts: {source: ..., target: ..., document: ...}. TSV: numbers of columns; "
        "default as for tsv. JSON and Parquet: names of keys or columns, also inside others (translation.en); default "
        "source and target. TMX: language codes; default data.source_language and data.target_language",
    )
    weight: float = Field(
        1.0,
        ge=0.001,
        le=1000,
        description="how often a pass has each pair; 0.5: every second pass has it; 2.5: each pass has it twice, and "
        "every second pass a third time",
    )
    mark: str | None = Field(
        None,
        description="a word such as <news> that is put before each source, and is one entry of the vocabulary; "
        "`translate --to news` puts it before each line",
    )
    begin: float = Field(
        0.0,
        ge=0,
        lt=1,
        alias="from",
        description="share of the training's updates, or passes, from which on it is used",
    )
    until: float = Field(
        1.0, gt=0, le=1, description="share of the training's updates, or passes, until which it is used"
    )

    @property
    def whole(self) -> bool:
        """Whether it is used all the time."""
        return self.begin == 0 and self.until == 1

    @property
    def kind(self) -> str | None:
        """The format of `file`; None for other corpora, and while its name has a variable that hides the ending."""
        if self.file is None or self.file.endswith("}"):
            return None
        return format_of(self.file)

    @model_validator(mode="after")
    def _one_form(self) -> ListedCorpus:
        if self.file is None:
            if self.fields is not None:
                raise ValueError("fields describe a file: set file as well")
            if self.tsv is None and (self.source is None or self.target is None):
                raise ValueError("give source and target (two aligned files), or file (one file)")
            self._refuse_two_forms()
        elif any(each is not None for each in (self.source, self.target, self.tsv, self.documents)):
            raise ValueError("give either file, or source and target, not both")
        kind, names = self.kind, () if self.fields is None else self.fields.names
        if kind == "tsv" and not all(isinstance(name, int) for name in names):
            raise ValueError("fields of a TSV file are the numbers of its columns, from 1")
        if kind in ("jsonl", "parquet", "tmx") and not all(isinstance(name, str) and name for name in names):
            raise ValueError(f"fields of a file in {kind} are names")
        if kind == "tmx" and self.fields is not None and self.fields.document is not None:
            raise ValueError("TMX has no documents: leave fields.document out")
        return self

    @model_validator(mode="after")
    def _lasts(self) -> ListedCorpus:
        if self.begin >= self.until:
            raise ValueError(f"from must be below until; got from: {self.begin:g}, until: {self.until:g}")
        return self

    @field_validator("mark")
    @classmethod
    def _is_mark(cls, mark: str | None) -> str | None:
        if mark is not None and (not _MARK.fullmatch(mark) or mark in _SPECIAL_MARKS or len(mark) > LONGEST_MARK):
            what = "a mark is a word of its own, between signs that are no letters or digits, such as <news>"
            raise ValueError(f"{what}, and none of {', '.join(_SPECIAL_MARKS)}; got {mark!r}")
        return mark

    @model_serializer(mode="wrap")
    def _as_written(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"from" if name == "begin" else name: value for name, value in serialise(self).items()}


def gaps(corpora: Sequence[ListedCorpus]) -> list[tuple[float, float]]:
    """The shares of the training, from and until, in which no corpus is used."""
    found, covered = [], 0.0
    for begin, until in sorted((each.begin, each.until) for each in corpora):
        if begin > covered:
            found.append((covered, begin))
        covered = max(covered, until)
    return found + ([(covered, 1.0)] if covered < 1 else [])


_ONE_CORPUS: TypeAdapter[Corpus] = TypeAdapter(Corpus)
_CORPORA: TypeAdapter[list[ListedCorpus]] = TypeAdapter(list[ListedCorpus])


def training_text(value: Any) -> Corpus | list[ListedCorpus]:
    """Read `data.train`: a corpus or a list of corpora.

    Raises:
        ValueError: faults of the form that is written, and a list that leaves a part of the training without text.
    """
    if not isinstance(value, list):
        return _ONE_CORPUS.validate_python(value)
    corpora = _CORPORA.validate_python(value)
    if not corpora:
        raise ValueError("the list has no corpus: give one")
    if unused := gaps(corpora):
        shown = " and ".join(f"from {begin:g} until {until:g}" for begin, until in unused)
        raise ValueError(f"no corpus is used {shown} of the training: change from or until of one of them")
    return corpora
