"""The glossaries of a server's clients, in memory and, if the server has a folder for them, in a file each."""

from __future__ import annotations

import contextlib
import csv
import io
import unicodedata
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock

from typing_extensions import TypedDict

from posnmt.base.errors import UserError
from posnmt.base.files import load_json, locked
from posnmt.base.output import sync, write_json
from posnmt.config.writing import base_code
from posnmt.deploy.documents.raw import MARK
from posnmt.deploy.server.refusal import Refusal
from posnmt.translate.terms import Terms, units

MOST = 1000
"""Most glossaries of a client, as at DeepL."""

MOST_ENTRIES = 10_000
"""Most entries of a dictionary."""

MOST_BYTES = 1024
"""Most bytes of a term and of a name, as at DeepL."""

MOST_UNITS = 50
"""Most words and signs of a term: the time to find terms grows with the longest."""

MOST_IN_ALL = 256 << 20
"""Most bytes of all terms of all clients; each entry counts `ENTRY` more."""

ENTRY = 350
"""Bytes of memory that an entry with short terms takes beside them."""

LOCK = ".lock"


class Content(TypedDict):
    """The content of a glossary's file; each dictionary is its two languages and its pairs of terms."""

    owner: str
    name: str
    created: str
    dictionaries: list[tuple[str, str, list[tuple[str, str]]]]


@dataclass(frozen=True)
class Dictionary:
    """Terms of a pair of languages.

    Attributes:
        source, target: codes of the languages, without region.
        entries: source term → target term.
    """

    source: str
    target: str
    entries: Mapping[str, str]

    @property
    def pair(self) -> tuple[str, str]:
        """Return the codes of the source and the target language."""
        return self.source, self.target

    @cached_property
    def terms(self) -> Terms:
        """Return the entries in the form in which search takes terms."""
        return merged([self])

    @cached_property
    def size(self) -> int:
        """The bytes of memory that its terms take, about."""
        return sum(ENTRY + len(source.encode()) + len(target.encode()) for source, target in self.entries.items())


@dataclass(frozen=True)
class Glossary:
    """Dictionaries of a client.

    Attributes:
        glossary_id: its id.
        owner: whose it is; see `Service.holder`.
        name: its name, for people.
        created: when it was made, in ISO 8601.
        dictionaries: one for each pair of languages.
    """

    glossary_id: str
    owner: str
    name: str
    created: str
    dictionaries: tuple[Dictionary, ...]

    @property
    def size(self) -> int:
        """The bytes of memory that its terms take, about."""
        return sum(each.size for each in self.dictionaries)

    def dictionary(self, pair: tuple[str, str]) -> Dictionary | None:
        """The dictionary of a pair of languages."""
        return next((each for each in self.dictionaries if each.pair == pair), None)

    def with_dictionary(self, new: Dictionary) -> Glossary:
        """The glossary with a dictionary in place of the one of the same languages."""
        kept = [each for each in self.dictionaries if each.pair != new.pair]
        return replace(self, dictionaries=(*kept, new))


class Glossaries:
    """All glossaries of a server. Methods may be called from several threads.

    Args:
        folder: where they are kept; None: in memory alone.

    Raises:
        UserError: a file in the folder is damaged.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder, self._lock = folder, Lock()
        self._all = {each.glossary_id: each for each in _stored(folder)}

    def of(self, owner: str) -> list[Glossary]:
        """The glossaries of a client, oldest first."""
        with self._lock:
            return sorted((each for each in self._all.values() if each.owner == owner), key=lambda each: each.created)

    def get(self, owner: str, glossary_id: str) -> Glossary:
        """A glossary of a client.

        Raises:
            Refusal: the client has none with this id.
        """
        found = self._all.get(glossary_id)
        if found is None or found.owner != owner:
            raise Refusal(404, f"there is no glossary with the id {glossary_id[:100]!r}")
        return found

    def create(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Make a new glossary.

        Raises:
            Refusal: the client has too many, or all glossaries are too large.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        new = Glossary(str(uuid.uuid4()), owner, name, now, tuple(dictionaries))
        with self._lock:
            if Counter(each.owner for each in self._all.values())[owner] >= MOST:
                raise Refusal(456, f"Quota exceeded: there are {MOST:,} glossaries; delete one of them")
            return self._put(new)

    def change(
        self, owner: str, glossary_id: str, name: str | None, dictionaries: Iterable[Dictionary] = (), add: bool = False
    ) -> Glossary:
        """Change the name of a glossary and some of its dictionaries.

        Args:
            add: whether entries are added to those of the dictionary of the same languages, and not put in their place.

        Raises:
            Refusal: the client has none with this id, or it would be too large.
        """
        with self._lock:
            changed = self.get(owner, glossary_id)
            for each in dictionaries:
                before = changed.dictionary(each.pair)
                if add and before is not None:
                    new = {units(source) for source in each.entries}
                    kept = {source: term for source, term in before.entries.items() if units(source) not in new}
                    each = dictionary(*each.pair, [*kept.items(), *each.entries.items()])
                changed = changed.with_dictionary(each)
            return self._put(changed if name is None else replace(changed, name=name))

    def delete(self, owner: str, glossary_id: str, pair: tuple[str, str] | None = None) -> None:
        """Delete a glossary, or its dictionary of a pair of languages.

        Raises:
            Refusal: the client has no such glossary, or it no such dictionary.
        """
        with self._lock:
            found = self.get(owner, glossary_id)
            if pair is not None:
                dictionary_of(found, pair)
                self._put(replace(found, dictionaries=tuple(each for each in found.dictionaries if each.pair != pair)))
                return
            if self._folder is not None:
                self._path(found).unlink(missing_ok=True)
                sync(self._folder)
            del self._all[glossary_id]

    def _put(self, glossary: Glossary) -> Glossary:
        """Keep a glossary; the file first, so that nothing is answered that is not kept."""
        others = sum(each.size for each in self._all.values() if each.glossary_id != glossary.glossary_id)
        if others + glossary.size > MOST_IN_ALL:
            raise Refusal(456, "Quota exceeded: the glossaries of this server have too many terms; delete some")
        if self._folder is not None:
            pairs = [(each.source, each.target, list(each.entries.items())) for each in glossary.dictionaries]
            content = Content(owner=glossary.owner, name=glossary.name, created=glossary.created, dictionaries=pairs)
            write_json(self._path(glossary), content)
        self._all[glossary.glossary_id] = glossary
        return glossary

    def _path(self, glossary: Glossary) -> Path:
        assert self._folder is not None
        return self._folder / f"{glossary.glossary_id}.json"


@contextlib.contextmanager
def kept_in(folder: Path | None) -> Iterator[Glossaries]:
    """The glossaries in a folder, which is locked; None: in memory.

    Raises:
        UserError: another server has the folder, it cannot be written, or a file in it is damaged.
    """
    if folder is None:
        yield Glossaries()
        return

    def busy() -> None:
        raise UserError("another server keeps its glossaries here", folder, "choose another --glossaries")

    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / LOCK, busy))
        except OSError as error:
            what = f"glossaries cannot be kept here: {error.strerror}"
            raise UserError(what, folder, "choose another --glossaries") from None
        yield Glossaries(folder)


def _stored(folder: Path | None) -> Iterator[Glossary]:
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        content = load_json(path, Content, "a glossary", "move it out of the folder")
        pairs = content["dictionaries"]
        dictionaries = tuple(Dictionary(source, target, dict(entries)) for source, target, entries in pairs)
        yield Glossary(path.stem, content["owner"], content["name"], content["created"], dictionaries)


def dictionary(source: str, target: str, entries: Sequence[tuple[str, str]]) -> Dictionary:
    """A dictionary of new entries.

    Raises:
        Refusal: too many, no or wrong entries.
    """
    if not entries:
        raise Refusal(400, "Invalid glossary entries provided: there are none")
    if len(entries) > MOST_ENTRIES:
        raise Refusal(413, f"{len(entries):,} entries are more than the {MOST_ENTRIES:,} of a dictionary")
    places = [f"entry {number}" for number in range(1, len(entries) + 1)]
    for pair, place in zip(entries, places, strict=True):
        for term in pair:
            if len(term.encode("utf-8", "surrogatepass")) > MOST_BYTES or len(units(term)) > MOST_UNITS:
                what = f"a term is longer than {MOST_BYTES:,} bytes or {MOST_UNITS} words and characters of punctuation"
                raise Refusal(400, f"Invalid glossary entries provided: {what} ({place})")
            if has_controls(term):
                raise Refusal(400, f"Invalid glossary entries provided: a control character ({place})")
    try:
        Terms(entries, places)
    except UserError as error:
        raise Refusal(400, f"Invalid glossary entries provided: {error.lines[0]}") from None
    return Dictionary(source, target, dict(entries))


def has_controls(text: str) -> bool:
    """Whether a text has control characters or half of a surrogate pair."""
    return any(unicodedata.category(each) in ("Cc", "Cs") for each in text)


def entries_of(text: str, form: str, pair: tuple[str, str]) -> list[tuple[str, str]]:
    """The entries of a text in the form `tsv` or `csv`; a byte order mark and empty lines do not count.

    A table with commas may have a third and a fourth column, which name the dictionary's languages.

    Args:
        pair: the codes of the dictionary's languages.

    Raises:
        Refusal: a line is not a pair of terms.
    """
    rows: list[list[str]]
    text = text.removeprefix(MARK)
    if form == "tsv":
        rows = [line.split("\t") for line in text.replace("\r\n", "\n").split("\n")]
    else:
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        except csv.Error as error:
            raise Refusal(400, f"Invalid glossary entries provided: not a table with commas: {error}") from None
    pairs = []
    for number, row in enumerate(rows, 1):
        if not any(map(str.strip, row)):
            continue
        if form == "csv" and len(row) == 4 and tuple(map(base_code, row[2:])) == pair:
            row = row[:2]
        if len(row) != 2:
            columns = f"{len(row)} column{'s' * (len(row) > 1)} in place of 2"
            raise Refusal(400, f"Invalid glossary entries provided: {columns} (line {number})")
        pairs.append((row[0].strip(), row[1].strip()))
    return pairs


def dictionary_of(glossary: Glossary, pair: tuple[str, str]) -> Dictionary:
    """The dictionary of a glossary for a pair of languages.

    Raises:
        Refusal: it has none.
    """
    found = glossary.dictionary(pair)
    if found is None:
        there = ", ".join("-".join(each.pair) for each in glossary.dictionaries) or "no languages"
        raise Refusal(404, f"the glossary has no dictionary for {'-'.join(pair)}, but for {there}")
    return found


def merged(dictionaries: Sequence[Dictionary]) -> Terms:
    """The terms of several dictionaries; of entries for the same source term, that of the first one counts."""
    pairs: dict[tuple[str, ...], tuple[str, str]] = {}
    for each in dictionaries:
        for entry in each.entries.items():
            pairs.setdefault(units(entry[0]), entry)
    return Terms(list(pairs.values()), [""] * len(pairs))
