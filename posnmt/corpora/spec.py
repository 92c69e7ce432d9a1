"""Specifications of a corpus: paths, a name of the catalogue, a test set of sacreBLEU, an id of mtdata, or URLs."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from posnmt.base.errors import UserError, combined, quoted
from posnmt.config.yaml import Section, faults

Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}$")]
Languages = tuple[Language, Language]
Regional = Annotated[str, Field(pattern=r"^[a-z]{2,3}([-_][A-Za-z]{2,4})?$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Column = Annotated[int, Field(ge=0)]


class _Spec(Section):
    """One way to name a corpus in a recipe or a catalogue."""

    @property
    def label(self) -> str:
        """Its name in messages: the value of the key that tells which kind it is, or the first of two."""
        [value] = [getattr(self, key) for key, kind in _FORMS.items() if isinstance(self, kind)]
        return value if isinstance(value, str) else str(value[0])


class LocalText(_Spec):
    """Two files of the user, source and target."""

    path: tuple[str, str] = Field(description="source and target text, plain, .gz or .xz")
    documents: str | None = Field(None, description="document ids, one a line")


class Listed(_Spec):
    """A corpus of posnmt's catalogue, by its name there."""

    name: str = Field(description="see `posnmt data list`")


class TestSet(_Spec):
    """A public test set that sacreBLEU knows, by its name there."""

    __test__ = False  # pytest would collect it as a test

    sacrebleu: str = Field(description="its name, such as wmt14/full; `sacrebleu --list` lists them")
    pair: str | None = Field(None, pattern=r"^[a-z]{2,3}-[a-z]{2,3}$", description="en-de; default: source-target")


class Indexed(_Spec):
    """A corpus of the catalogue or of mtdata, by its id in mtdata."""

    mtdata: str = Field(
        pattern=r"^[^-]+-[^-]+-[^-]+-[^-]+-[^-]+$",
        description="group-name-version-language-language: Statmt-europarl-10-deu-eng",
    )


class Remote(_Spec):
    """Files at URLs: two text files, an archive of two text files, or one file or archive with pairs as TSV or TMX."""

    url: str | tuple[str, str]
    sha256: Digest | tuple[Digest, Digest] | None = Field(
        None, description="checksum of each fetched file; default: that of its first fetch"
    )
    members: list[str] = Field(
        [], max_length=2, description="the files in the archive, or patterns (*.de) that each match one"
    )
    form: Literal["text", "tsv", "tmx"] | None = Field(
        None, description="format; default: by the file's ending, else text"
    )
    columns: tuple[Column, Column] = Field((0, 1), description="tsv: the columns of the two texts, counted from 0")
    documents: Column | None = Field(None, description="tsv: the column of document ids")
    languages: tuple[Regional, Regional] | None = Field(
        None, description="languages of the two texts, in their order, such as [en, pt_BR]; default: source, target"
    )

    @field_validator("url")
    @classmethod
    def _fetchable(cls, url: str | tuple[str, str]) -> str | tuple[str, str]:
        for address in (url,) if isinstance(url, str) else url:
            if not _is_fetchable(address):
                what = "a URL begins with http:// or https://, is ASCII, and has no user name and no impossible port"
                raise ValueError(f"{what}; got {quoted(address)}")
        return url

    @model_validator(mode="after")
    def _two_texts(self) -> Remote:
        if isinstance(self.sha256, tuple) != isinstance(self.url, tuple) and self.sha256 is not None:
            raise ValueError("there must be as many checksums as URLs")
        if len(self.urls) == 2 and (self.members or self.kind != "text"):
            raise ValueError("two URLs are two text files, one for each language, not archives or tables")
        if len(self.urls) == 1 and self.kind == "text" and len(self.members) != 2:
            raise ValueError("the format text needs two files: give two URLs, or two members of an archive")
        if self.kind != "text" and len(self.members) == 2:
            raise ValueError(f"{self.kind} has both languages in one file; name one member")
        return self

    @property
    def urls(self) -> list[str]:
        """The one or two URLs to download, as a list."""
        return [self.url] if isinstance(self.url, str) else list(self.url)

    @property
    def checksums(self) -> list[str | None]:
        """A SHA-256 or None for each URL."""
        if self.sha256 is None:
            return [None] * len(self.urls)
        return [self.sha256] if isinstance(self.sha256, str) else list(self.sha256)

    @property
    def kind(self) -> str:
        """The format of the texts: `form`, else by the suffix of the member or URL."""
        if self.form is not None:
            return self.form
        name = (self.members or [urlsplit(self.urls[0]).path])[0].lower()
        for ending in (".gz", ".xz", ".bz2"):
            name = name.removesuffix(ending)
        return next((kind for kind in ("tsv", "tmx") if name.endswith(f".{kind}")), "text")


class Columns(Section):
    """Tables of a distribution that needs a licence."""

    tables: list[str] = Field(min_length=1, description="ends of their paths in the distribution, in the texts' order")
    separator: str = Field(min_length=1, description="what stands between two columns")
    fields: Annotated[int, Field(ge=2)] = Field(description="columns of each line")
    columns: tuple[Column, Column] = Field(description="of the two texts, from 0")
    documents: Column | None = Field(None, description="the column of document ids")


class MtEval(Section):
    """A test set of a distribution that needs a licence, in the XML of NIST's mteval: a source and its references."""

    mteval: str = Field(description="pattern of its files' names")


def _is_fetchable(address: str) -> bool:
    """Whether a text is a URL that can be requested: ASCII, without blanks and without a user name."""
    try:
        parts = urlsplit(address)
        port = parts.port  # raises if it is not the number of a port
    except ValueError:
        return False
    plain = address.isascii() and address.isprintable() and " " not in address
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None and port != 0


Corpus = LocalText | Listed | TestSet | Indexed | Remote
_FORMS: dict[str, type[Corpus]] = {
    "path": LocalText, "name": Listed, "sacrebleu": TestSet, "mtdata": Indexed, "url": Remote,
}  # fmt: skip


def spec(tree: dict[str, Any]) -> Corpus:
    """A corpus from a recipe: {path: …}, {name: …}, {sacrebleu: …}, {mtdata: …} or {url: …}, with its options.

    Raises:
        UserError: the tree has none or several of these keys, an unknown key, or an invalid value.
    """
    named = [key for key in _FORMS if key in tree]
    if len(named) != 1:
        keys = " and ".join(named) or ", ".join(map(str, tree)) or "nothing"
        raise UserError(f"a corpus is named by one of {', '.join(_FORMS)}; got {keys}", None, "see docs/corpora.md")
    model = _FORMS[named[0]]
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise combined(faults(error, model, None, {})) from None
