"""XLIFF 1.2 and 2.0: units without a translation get one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lxml import etree

from posnmt.config.writing import is_alike, is_same
from posnmt.deploy.documents.segment import Segment
from posnmt.deploy.documents.xml import PRESERVED, Inline, Tree, beside, children, fill, insert_after

INLINE = Inline(["g", "mrk", "pc"])

NEW = frozenset(["new", "needs-translation", "initial"])
"""States of a target that is still to be translated; the last one is of XLIFF 2."""


class Unit(NamedTuple):
    """A text and the element that has it, a `trans-unit` of XLIFF 1 or a `segment` of XLIFF 2."""

    whole: Any
    source: Any


class XliffDocument:
    """A document of segments for translation.

    Raises:
        UserError: as `Tree`.
    """

    def __init__(self, data: bytes, path: Path, languages: tuple[str, str]) -> None:
        self._tree, self._target = Tree(data, path, "xliff"), languages[1]
        self.notes: list[str] = []
        self._is_second = str(self._tree.root.get("version", "")).startswith("2")
        self._units: list[tuple[Unit, list[Segment]]] = []
        kept = closed = 0
        for unit in self._all_units():
            if _is_closed(unit.whole):
                closed += 1
            elif self._is_translated(unit):
                kept += 1
            else:
                parts = [Segment(each.sourceline, INLINE.pieces(each)) for each in _parts(unit.source)]
                self._units.append((unit, parts))
        if kept:
            self.notes.append(f"{kept:,} segments have a translation and are left as they are")
        if closed:
            self.notes.append(f"{closed:,} segments are marked as not to be translated")
        self._compare(languages)

    @property
    def segments(self) -> list[Segment]:
        """See `Document`."""
        return [segment for _, segments in self._units for segment in segments]

    def content(self) -> bytes:
        """See `Document`; notes how many units lose translations, since one of their segments has none."""
        unwritten = 0
        for unit, segments in self._units:
            done = [each.translated is not None for each in segments]
            if any(done) and all(is_done or not each.has_letters for is_done, each in zip(done, segments, strict=True)):
                self._fill(unit, segments)
            else:
                unwritten += any(done)
        if unwritten:
            self.notes.append(f"{unwritten:,} units are left as they are, since not all their segments are translated")
        return self._tree.content()

    def _all_units(self) -> Iterator[Unit]:
        """The units in order."""
        for whole in self._tree.root.iter("{*}segment" if self._is_second else "{*}trans-unit"):
            source = children(whole, "seg-source") or children(whole, "source")
            if source:
                yield Unit(whole, source[0])

    def _is_translated(self, unit: Unit) -> bool:
        [target, *_] = children(unit.whole, "target") or [None]
        state = (unit.whole if self._is_second else target).get("state") if target is not None else None
        return target is not None and bool("".join(target.itertext()).strip()) and state not in NEW

    def _fill(self, unit: Unit, segments: list[Segment]) -> None:
        """Write the translations of a unit into its target, with the source's structure and what has no translation."""
        old = children(unit.whole, "target")
        target = old[0] if old else beside(unit.source, "target")
        if unit.source.get(PRESERVED):
            target.set(PRESERVED, unit.source.get(PRESERVED))
        fill(target, INLINE.pieces(unit.source))
        for element, segment in zip(_parts(target), segments, strict=True):
            if segment.translated is not None:
                fill(element, segment.translated)
        if not old:
            insert_after(unit.source, target, unit.whole.text)
        if self._is_second:
            unit.whole.set("state", "translated")
        else:
            target.set("state", "needs-review-translation")
            target.set("state-qualifier", "mt-suggestion")

    def _compare(self, languages: tuple[str, str]) -> None:
        """State the target language where the document does not; note where its languages are others."""
        names = ("srcLang", "trgLang") if self._is_second else ("source-language", "target-language")
        holders = [self._tree.root] if self._is_second else list(self._tree.root.iter("{*}file"))
        for holder in holders:
            if holder.get(names[1]) is None:
                holder.set(names[1], languages[1])
            given = tuple(str(holder.get(each, "?")) for each in names)
            if not all(is_same(*pair) or is_alike(*pair) for pair in zip(given, languages, strict=True)):
                line = (
                    f"its languages are {given[0]} and {given[1]}, those of the model {languages[0]} and {languages[1]}"
                )
                if line not in self.notes:
                    self.notes.append(line)


def _parts(element: Any) -> list[Any]:
    """The elements of a source whose content is a segment: those marked as such, or the whole."""
    marked = [each for each in element.iter(etree.Element) if each.get("mtype") == "seg"]
    return marked or [element]


def _is_closed(element: Any) -> bool:
    """Whether an element, or the nearest one around it that says so, is not to be translated."""
    chain = (element, *element.iterancestors())
    return next((each.get("translate") for each in chain if each.get("translate")), "yes") == "no"
