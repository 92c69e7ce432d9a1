"""TMX 1.4: units without a text in the target language get a translation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lxml import etree

from posnmt.base.errors import UserError
from posnmt.config.writing import is_alike, is_same
from posnmt.deploy.documents.segment import Kept, Segment
from posnmt.deploy.documents.xml import (
    Inline,
    Tree,
    children,
    fill,
    insert_after,
    kept,
    kept_elsewhere,
    kept_in,
    new_element,
    text_of,
)

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

INLINE = Inline(["hi"])

OUTER = frozenset(["tmx", "header", "body", "tu", "tuv"])
"""Elements that only contain other elements."""

MACHINE = {"creationid": "MT!", "creationtool": "posnmt"}
"""Attributes of a machine translation. Okapi's tools write and read this `creationid`."""


class TmxDocument:
    """A translation memory.

    Raises:
        UserError: no unit has a text in the source language, or `Tree` refuses the file.
    """

    def __init__(self, data: bytes, path: Path, languages: tuple[str, str]) -> None:
        self._tree, self._target = Tree(data, path, "tmx"), languages[1]
        self.notes: list[str] = []
        self.kept: list[Kept] = []
        self._segments: list[tuple[Any, Any, Segment]] = []
        units = list(self._tree.root.iter("{*}tu"))
        without, done = 0, set()
        seen: set[str] = set()
        for unit in units:
            tuvs = children(unit, "tuv")
            seen |= set(map(language_of, tuvs))
            before, after = _texts(unit, languages)
            source, target = _segment(before), _segment(after)
            is_done = target is not None and bool(text_of(target).strip())
            if source is None:
                without += 1
            elif not is_done:
                segment = Segment(source.sourceline, INLINE.pieces(source))
                self._segments.append((unit, after, segment))
                self.kept += kept_in(segment.pieces, segment.line)
            for each in filter(lambda each: each is not None, map(_segment, tuvs)):
                done.add(each)
                if each is not source or is_done:
                    is_part = {source: "already translated", target: "translations"}
                    reason = is_part.get(each, "in other languages")
                    reason = f"in units without {languages[0]}" if source is None else reason
                    self.kept += kept(each.sourceline, text_of(each), reason)
        self.kept += kept_elsewhere(self._tree.root, OUTER, done)
        if without == len(units):
            what = (
                f"none of {len(units):,} units has a text in {languages[0]}; its languages: {', '.join(sorted(seen))}"
            )
            raise UserError(what, path, "name those of the model and the document with --languages, such as en-de")

    @property
    def segments(self) -> list[Segment]:
        """Return the segments of all units that are translated, in the order of the file."""
        return [segment for *_, segment in self._segments]

    def content(self) -> bytes:
        """Return the bytes of the file, with translations that are marked as made by a machine."""
        for unit, tuv, segment in self._segments:
            if segment.translated is not None:
                element = self._place(unit, tuv)
                element.getparent().attrib.update(MACHINE)
                fill(element, segment.translated)
        return self._tree.content()

    def _place(self, unit: Any, tuv: Any) -> Any:
        """The `seg` element for the translation of a unit. It is made if it does not exist, and so is its `tuv`."""
        if tuv is None:
            tuv = new_element(unit, "tuv")
            tuv.set(LANGUAGE, self._target)
            insert_after(children(unit, "tuv")[-1], tuv, unit.text)
        element = _segment(tuv)
        return etree.SubElement(tuv, "seg") if element is None else element


def language_of(tuv: Any) -> str:
    """The language code of a text."""
    return str(tuv.get(LANGUAGE) or tuv.get("lang") or "")


def _texts(unit: Any, languages: Sequence[str]) -> list[Any]:
    """A unit's text (`tuv`) for each language, or None. No text is used for two languages."""
    texts: list[Any] = [None] * len(languages)
    for matches in (is_same, is_alike):
        for number, language in enumerate(languages):
            others = (each for each in children(unit, "tuv") if each not in texts)
            free = (each for each in others if matches(language_of(each), language))
            texts[number] = next(free, None) if texts[number] is None else texts[number]
    return texts


def _segment(tuv: Any) -> Any:
    return None if tuv is None else next(iter(children(tuv, "seg")), None)
