"""Translation memories (TMX 1.4) as two files of aligned lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree
from xml.parsers import expat

from posnmt.base.errors import UserError, raise_all
from posnmt.config.writing import is_alike, is_same
from posnmt.corpora.archive import unpacked
from posnmt.corpora.download import Say
from posnmt.corpora.text import write_rows

_MARKUP = ("bpt", "ept", "it", "ph", "ut")
"""Elements inside a segment with another format's markup, which is no text."""

_LANGUAGE = ("{http://www.w3.org/XML/1998/namespace}lang", "lang")


def write_tmx(file: Path, languages: Sequence[str], out: Sequence[Path], say: Say) -> int:
    """Write the translation units of a TMX file that have both languages; return the number of lines.

    Units that lack one of the languages are skipped, counted and reported. Line breaks and tabs inside a segment become
    blanks, and another format's markup is left out. A language without a region, such as `pt`, is a text of that code,
    else one of any region; `pt_BR` is a text of that region, else one of `pt`.

    Args:
        file: the memory, which may be compressed.
        languages: two codes.
        out: a file to write for each.
        say: called with a line about what is skipped, and about languages with several regions.

    Raises:
        UserError: not well-formed, entities that it declares itself, no unit has both languages, or a unit has texts of
            several regions for one of them.
    """
    memory = _Memory(file, languages)
    with unpacked(file) as stream:
        refuse_entities(stream, file)
    with unpacked(file) as stream:
        lines = write_rows(memory.rows(_units(stream, file)), out)
    memory.refuse(lines)
    memory.report(lines, say)
    return lines


class _Memory:
    """The texts of a memory in two languages, and counts of what is not written.

    Args:
        file: for messages.
        languages: two codes.
    """

    def __init__(self, file: Path, languages: Sequence[str]) -> None:
        self.file, self.languages, self.units = file, languages, 0
        self._seen: Counter[str] = Counter()
        self._taken: dict[str, Counter[str]] = {language: Counter() for language in languages}
        self._regions: dict[str, Counter[str]] = {language: Counter() for language in languages}
        self._ambiguous: Counter[str] = Counter()
        self._repeated: Counter[str] = Counter()

    def rows(self, units: Iterable[ElementTree.Element]) -> Iterator[list[bytes]]:
        """The texts of the units that have both languages."""
        for unit in units:
            self.units += 1
            texts = [(_language(part), _segment(part)) for part in _children(unit, "tuv")]
            self._seen.update({code for code, _ in texts})
            fitting = self._fitting([each for each in texts if each[1]])
            if all(fitting.values()):
                yield [self._text(language, each).encode() for language, each in fitting.items()]

    def _fitting(self, texts: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
        """The codes and texts of a unit for each language, none of which is for both."""
        fitting: dict[str, list[tuple[str, str]]] = {language: [] for language in self.languages}
        for fits in (is_same, is_alike):
            for language in self.languages:
                if not fitting[language]:
                    fitting[language] = [each for each in texts if fits(each[0], language)]
                    texts = [each for each in texts if each not in fitting[language]]
        return fitting

    def _text(self, language: str, fitting: list[tuple[str, str]]) -> str:
        """The text of a unit in a language, counted."""
        code, text = fitting[0]
        self._taken[language][code] += 1
        if len({other for _, other in fitting}) > 1:
            codes = list(dict.fromkeys(each for each, _ in fitting))
            self._repeated[language] += len(codes) == 1
            self._ambiguous[language] += len(codes) > 1
            self._regions[language].update(codes if len(codes) > 1 else ())
        return text

    def refuse(self, lines: int) -> None:
        """Refuse a memory without lines, and one whose lines would be chosen by chance."""
        if not self.units:
            raise UserError("it has no translation units (tu)", self.file, "give a translation memory in TMX")
        if not lines:
            both, seen = " and ".join(self.languages), ", ".join(sorted(filter(None, self._seen))) or "none"
            what = f"none of {self.units:,} units has both {both}; its languages: {seen}"
            raise UserError(what, self.file, "name two of them, with an underscore before a region, as in pt_BR")
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

    def report(self, lines: int, say: Say) -> None:
        """Report what is skipped, and which regions the texts are of."""
        name = self.file.name
        if lines < self.units:
            skipped = f"{self.units - lines:,} of {self.units:,} units"
            say(f"{name}: {skipped} lack text in one of the languages and are skipped")
        for language, codes in self._taken.items():
            if len(codes) > 1:
                alone = "" if re.search("[-_]", language) else "; name one of them to write it alone"
                say(f"{name}: units in {language} are in {_listed(codes)}{alone}")
            if number := self._repeated[language]:
                say(f"{name}: {number:,} units have several texts in {language}; the first of each is written")


def _listed(codes: Counter[str]) -> str:
    """Codes with their numbers, the most frequent first."""
    return ", ".join(f"{code} ({number:,})" for code, number in codes.most_common())


def refuse_entities(stream: BinaryIO, file: Path) -> None:
    """Refuse declared entities, which can name other files or grow without end; TMX needs none.

    They stand before the first element, where this reading ends.
    """
    parser = expat.ParserCreate()
    begun = False

    def element(*_: Any) -> None:
        nonlocal begun
        begun = True

    def entity(name: str, *_: Any) -> None:
        if not begun:
            raise UserError(f"it declares an entity, {name}, which is not safe to read", file, "remove the declaration")

    parser.StartElementHandler, parser.EntityDeclHandler = element, entity
    try:
        while not begun and (chunk := stream.read(1 << 16)):
            parser.Parse(chunk)
    except (expat.ExpatError, LookupError, ValueError) as error:  # encodings too
        raise _malformed(error, file) from None


def _malformed(error: Exception, file: Path) -> UserError:
    return UserError(f"not well-formed XML: {error}", file, "remove it, and fetch it again")


def _units(stream: BinaryIO, file: Path) -> Iterator[ElementTree.Element]:
    """The translation units as a stream; units that have been read are freed."""
    around: list[ElementTree.Element] = []
    try:
        for event, element in ElementTree.iterparse(stream, events=("start", "end")):  # noqa: S314  entities are refused
            if event == "start":
                around.append(element)
                continue
            around.pop()
            if _name(element) == "tu":
                yield element
                for each in around:  # the nearest one holds the unit
                    each.clear()
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise _malformed(error, file) from None


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
    return re.sub(r"[\r\n\t]+", " ", next(texts, "")).strip()


def _text(element: ElementTree.Element) -> Iterator[str]:
    """The text of a segment, without the markup in it."""
    yield element.text or ""
    for child in element:
        if _name(child) not in _MARKUP:
            yield from _text(child)
        yield child.tail or ""
