"""The translation units of memories (TMX 1.4) that have two languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree
from xml.parsers import expat

from posnmt.base.errors import UserError, raise_all
from posnmt.config.writing import is_alike, is_same

MOST_LEVELS, MOST_ELEMENTS, MOST_BYTES = 100, 100_000, 1 << 24
"""The deepest nesting of elements, and the most elements and bytes from the end of a unit to the end of the next."""

_MARKUP = ("bpt", "ept", "it", "ph", "ut")
"""Elements inside a segment that hold another format's markup and no text."""

NAMING = "name two of them, with an underscore before a region, as in pt_BR"
"""What to do about languages that a memory lacks, where its languages are an option."""

_LANGUAGE = ("{http://www.w3.org/XML/1998/namespace}lang", "lang")


class Memory:
    """The texts of a memory in two languages, and counts of units that lack one.

    A language without a region, such as `pt`, matches a text of that code, or else of any region. `pt_BR` matches a
    text of that region, or else of `pt`. Line breaks and tabs inside a segment become blanks, and another format's
    markup is left out.

    Args:
        file: the memory, for messages.
        languages: two codes.
        naming: what to do about languages that the memory lacks.

    Attributes:
        units: those that were read, whatever they have.
    """

    def __init__(self, file: Path, languages: Sequence[str], naming: str = NAMING) -> None:
        self.file, self.languages, self.naming, self.units = file, languages, naming, 0
        self._seen: Counter[str] = Counter()
        self._written: dict[str, Counter[str]] = {language: Counter() for language in languages}
        self._regions: dict[str, Counter[str]] = {language: Counter() for language in languages}
        self._ambiguous: Counter[str] = Counter()
        self._repeated: Counter[str] = Counter()

    def texts(self, units: Iterable[ElementTree.Element]) -> Iterator[list[str]]:
        """The texts of each unit that has both languages; `units` is then its number, from 1."""
        for unit in units:
            self.units += 1
            texts = [(_language(part), _segment(part)) for part in _children(unit, "tuv")]
            self._seen.update({code for code, _ in texts})
            matches = self._matches([each for each in texts if each[1]])
            if all(matches.values()):
                yield [self._text(language, each) for language, each in matches.items()]

    def _matches(self, texts: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
        """Language -> the codes and texts of a unit that match it. No text matches both languages."""
        matches: dict[str, list[tuple[str, str]]] = {language: [] for language in self.languages}
        for is_match in (is_same, is_alike):
            for language in self.languages:
                if not matches[language]:
                    matches[language] = [each for each in texts if is_match(each[0], language)]
                    texts = [each for each in texts if each not in matches[language]]
        return matches

    def _text(self, language: str, matches: list[tuple[str, str]]) -> str:
        """The first of a unit's texts in a language. Its code is counted, and so are different texts."""
        code, text = matches[0]
        self._written[language][code] += 1
        if len({other for _, other in matches}) > 1:
            codes = list(dict.fromkeys(each for each, _ in matches))
            self._repeated[language] += len(codes) == 1
            self._ambiguous[language] += len(codes) > 1
            self._regions[language].update(codes if len(codes) > 1 else ())
        return text

    def refuse(self, lines: int) -> None:
        """Refuse a memory that gave no lines, and one whose units have several texts in a language."""
        if not self.units:
            raise UserError("the file has no translation units (tu)", self.file, "name a translation memory in TMX")
        if not lines:
            both, seen = " and ".join(self.languages), ", ".join(sorted(filter(None, self._seen))) or "none"
            what = f"none of {self.units:,} units has both {both}; its languages: {seen}"
            raise UserError(what, self.file, self.naming)
        raise_all(
            [
                UserError(
                    f"{self._ambiguous[language]:,} units have several texts in {language}: {_listed(codes)}",
                    self.file,
                    f"name one of them, such as {codes.most_common(1)[0][0].replace('-', '_')}",
                )
                for language, codes in self._regions.items()
                if codes
            ]
        )

    def report(self, lines: int, say: Callable[[str], None]) -> None:
        """Report the number of skipped units, and the regions of the texts."""
        name = self.file.name
        if lines < self.units:
            skipped = f"{self.units - lines:,} of {self.units:,} units"
            say(f"{name}: {skipped} lack text in one of the languages and are skipped")
        for language, codes in self._written.items():
            if len(codes) > 1:
                alone = "" if re.search("[-_]", language) else "; name one of them to write it alone"
                say(f"{name}: units in {language} are in {_listed(codes)}{alone}")
            if number := self._repeated[language]:
                say(f"{name}: {number:,} units have several texts in {language}; the first of each is written")


def _listed(codes: Counter[str]) -> str:
    """Codes with their numbers, the most frequent first."""
    return ", ".join(f"{code} ({number:,})" for code, number in codes.most_common())


FETCH = "name a TMX file; if this one is damaged, fetch it again"
"""What to do about a memory that is no XML."""


def refuse_entities(stream: BinaryIO, file: Path, todo: str = FETCH) -> None:
    """Refuse files that declare entities. These can name other files or grow without end, and TMX needs none.

    Declarations come before the first element, so reading stops there.

    Args:
        stream: the content of the file.
        file: for the message.
        todo: what to do about a file that is no XML.
    """
    parser = expat.ParserCreate()
    in_element = False

    def element(*_: Any) -> None:
        nonlocal in_element
        in_element = True

    def entity(name: str, *_: Any) -> None:
        if not in_element:
            what = f"the file declares an entity, {name}, which is not safe to read"
            raise UserError(what, file, "remove the declaration")

    parser.StartElementHandler, parser.EntityDeclHandler = element, entity
    read = 0
    try:
        while not in_element and (chunk := stream.read(1 << 16)):
            read += len(chunk)
            if read > MOST_BYTES:
                raise UserError(f"no element begins in {MOST_BYTES:,} bytes", file, "name an XML file")
            parser.Parse(chunk)
    except (expat.ExpatError, LookupError, ValueError) as error:  # also raised for unknown encodings
        raise malformed(error, file, todo) from None


def malformed(error: Exception, file: Path, todo: str = FETCH) -> UserError:
    """The fault of a file that is no XML."""
    return UserError(f"not well-formed XML: {error}", file, todo)


def one_line(text: str) -> str:
    """A text without line breaks and tabs, and without white space around it."""
    return re.sub(r"[\r\n\t]+", " ", text).strip()


class _SinceUnit:
    """A stream that raises an error where a memory has too much between the ends of two units, which is all in memory.

    Attributes:
        bytes, elements: since the last unit.
    """

    def __init__(self, stream: BinaryIO, file: Path) -> None:
        self._stream, self._file = stream, file
        self.bytes = self.elements = 0

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes.

        Raises:
            UserError: there are more than `MOST_BYTES` without a unit.
        """
        chunk = self._stream.read(size)
        self.bytes += len(chunk)
        if self.bytes > MOST_BYTES:
            raise self._fault(f"a unit has more than {MOST_BYTES:,} bytes")
        return chunk

    def refuse_element(self, level: int) -> None:
        """Count an element at a depth.

        Raises:
            UserError: it is nested too deeply, or there are too many without a unit.
        """
        self.elements += 1
        if level > MOST_LEVELS:
            raise self._fault(f"more than {MOST_LEVELS} elements are nested")
        if self.elements > MOST_ELEMENTS:
            raise self._fault(f"a unit has more than {MOST_ELEMENTS:,} elements")

    def _fault(self, what: str) -> UserError:
        return UserError(what, self._file, "give a memory with a sentence or a few in each unit (tu)")


def units(stream: BinaryIO, file: Path) -> Iterator[ElementTree.Element]:
    """The translation units as a stream; units that have been read are freed."""
    open_elements: list[ElementTree.Element] = []
    since = _SinceUnit(stream, file)
    try:
        # entities are refused before
        for event, element in ElementTree.iterparse(since, events=("start", "end")):  # noqa: S314
            if event == "start":
                open_elements.append(element)
                since.refuse_element(len(open_elements))
                continue
            open_elements.pop()
            if _name(element) == "tu":
                since.bytes = since.elements = 0
                yield element
                for each in open_elements:  # the innermost one holds the unit
                    each.clear()
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise malformed(error, file) from None


def _name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace, which some programs write."""
    return element.tag.rpartition("}")[2]


def _children(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [child for child in element if _name(child) == name]


def _language(part: ElementTree.Element) -> str:
    return next((part.attrib[name] for name in _LANGUAGE if name in part.attrib), "")


def _segment(part: ElementTree.Element) -> str:
    """The text of the segment of a `tuv` element, on one line."""
    texts = ("".join(_text(segment)) for segment in _children(part, "seg"))
    return one_line(next(texts, ""))


def _text(element: ElementTree.Element) -> Iterator[str]:
    """The text of a segment, without the markup in it."""
    yield element.text or ""
    for child in element:
        if _name(child) not in _MARKUP:
            yield from _text(child)
        yield child.tail or ""
