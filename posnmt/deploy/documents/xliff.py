"""XLIFF 1.2 and 2.0: units without a translation get one.

A unit is a `trans-unit` of XLIFF 1.2 or a `segment` of XLIFF 2.0.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lxml import etree

from posnmt.config.writing import is_alike, is_same
from posnmt.deploy.documents.segment import Kept, Piece, Segment, has_letters
from posnmt.deploy.documents.xml import (
    NOT_TRANSLATED,
    PRESERVED,
    Active,
    Inline,
    Tree,
    children,
    fill,
    insert_after,
    kept,
    kept_elsewhere,
    kept_in,
    name,
    new_element,
    own_choice,
    stated,
    text_of,
)

INLINE = Inline(["g", "mrk", "pc"])

NEW = frozenset(["new", "needs-translation", "initial"])
"""States of a target without a translation; `initial` is that of XLIFF 2."""

OUTER = frozenset(["xliff", "file", "header", "body", "group", "trans-unit", "bin-unit", "unit", "segment"])
"""Elements that only contain other elements."""


@dataclass
class Unit:
    """A unit of translation.

    Attributes:
        whole: its element.
        source: the element with the text.
        target: the element for the translation; None if there is none.
        is_new: whether the target has no translation yet.
        segments: part of the source → its segment; None: the part is not translated.
    """

    whole: Any
    source: Any
    target: Any
    is_new: bool
    segments: dict[str, Segment | None] = field(default_factory=dict)


class XliffDocument:
    """A document of segments for translation.

    Raises:
        UserError: `Tree` refuses the file.
    """

    def __init__(self, data: bytes, path: Path, languages: tuple[str, str]) -> None:
        self._tree, self._target = Tree(data, path, "xliff"), languages[1]
        self.notes: list[str] = []
        self.kept: list[Kept] = []
        self._is_second = str(self._tree.root.get("version", "")).startswith("2")
        self._units: list[Unit] = []
        done: set[Any] = set()
        holder: Any = None
        active: Active = []
        for whole in self._tree.root.iter("{*}segment" if self._is_second else "{*}trans-unit"):
            outer = whole.getparent() if self._is_second else whole
            if outer is not holder:
                holder, active = outer, []
            if sources := children(whole, "seg-source") or children(whole, "source"):
                target = next(iter(children(whole, "target")), None)
                done |= {sources[0], target}
                self._units.append(self._read(whole, sources[0], target, active))
                if name(sources[0]) == "seg-source":
                    for each in children(whole, "source"):
                        done.add(each)
                        self.kept += kept(each.sourceline, text_of(each), "repeated in <seg-source>")
        self.kept += kept_elsewhere(self._tree.root, OUTER, done)
        self._compare(languages)

    @property
    def segments(self) -> list[Segment]:
        """Return the segments of all units that are translated, in the order of the file."""
        return [each for unit in self._units for each in unit.segments.values() if each is not None]

    def content(self) -> bytes:
        """See `Document`. A unit stays as it is if one of its segments has no translation."""
        unwritten, replaced = 0, []
        for unit in self._units:
            segments = [each for each in unit.segments.values() if each is not None and each.has_letters]
            is_done = all(each.translated is not None for each in segments)
            old = "" if unit.target is None or not unit.is_new else text_of(unit.target)
            if segments and is_done:
                if old.split() != text_of(unit.source).split() and has_letters(old):
                    replaced.append(unit.target.sourceline)
                self._fill(unit)
                continue
            unwritten += any(each.translated is not None for each in segments)
            for each in segments:
                each.translated = None
            if old:
                self.kept += kept(unit.target.sourceline, old, "targets of texts that are not translated")
        if unwritten:
            what = "units are left as they are, because not all their segments are translated"
            self.notes.append(f"{unwritten:,} {what}")
        if replaced:
            what = f"{len(replaced):,} targets that were marked as not yet translated are replaced"
            self.notes.append(f"{what}, the first in line {replaced[0]}")
        return self._tree.content()

    def _read(self, whole: Any, source: Any, target: Any, active: Active) -> Unit:
        """Read a unit, and record its texts that are not translated."""
        state = None if target is None else (whole if self._is_second else target).get("state")
        unit = Unit(whole, source, target, target is None or state in NEW)
        marks = {} if unit.is_new else _parts(target)
        parts = _parts(source)
        are_marked = target not in marks.values() and source not in parts.values()
        is_closed = next(filter(None, map(stated, (whole, *whole.iterancestors()))), "yes") == "no"
        for key, part in parts.items():
            pieces = _pieces(part, whole, is_closed, active)
            own = marks.get(key) if are_marked else None if unit.is_new else target
            if own is not None and text_of(own).strip():
                reason = f"already translated (state {state})" if state else "already translated"
                self.kept += kept(part.sourceline, text_of(part), NOT_TRANSLATED if is_closed else reason)
                continue
            inside = kept_in(pieces, part.sourceline)
            self.kept += inside
            segment = Segment(part.sourceline, pieces)
            unit.segments[key] = segment if segment.has_letters or not (inside or is_closed) else None
        if source not in parts.values():
            self.kept += kept(source.sourceline, text_of(source, parts.values()), "text outside segments")
        if target is not None and not unit.is_new:
            self.kept += kept(target.sourceline, text_of(target), NOT_TRANSLATED if is_closed else "translations")
        return unit

    def _fill(self, unit: Unit) -> None:
        """Write the translations of a unit into its target. Parts of the source without one are copied."""
        target = unit.target
        if target is None:
            target = new_element(unit.source, "target")
            insert_after(unit.source, target, unit.whole.text)
        marks = {} if unit.is_new else _parts(target)
        parts = _parts(unit.source)
        if not marks or target in marks.values():
            if unit.source.get(PRESERVED):
                target.set(PRESERVED, unit.source.get(PRESERVED))
            fill(target, INLINE.pieces(unit.source))
            marks = _parts(target)
        last = None
        for key, part in parts.items():
            element, segment = marks.get(key), unit.segments.get(key)
            if element is None:
                element = copy.deepcopy(part)
                if last is None:
                    target.insert(0, element)
                else:
                    insert_after(marks[last], element, parts[last].tail)
                marks[key] = element
            if segment is not None and (segment.passes or segment.translated is not None):
                fill(element, segment.translated or segment.pieces)
            last = key
        if self._is_second:
            unit.whole.set("state", "translated")
            unit.whole.attrib.pop("subState", None)  # it describes the old state
        else:
            target.set("state", "needs-review-translation")
            target.set("state-qualifier", "mt-suggestion")
            if unit.whole.get("approved") == "yes":
                unit.whole.set("approved", "no")

    def _compare(self, languages: tuple[str, str]) -> None:
        """Add the target language where the document has none, and a note if its languages are not the model's."""
        names = ("srcLang", "trgLang") if self._is_second else ("source-language", "target-language")
        holders = [self._tree.root] if self._is_second else list(self._tree.root.iter("{*}file"))
        for holder in holders:
            if holder.get(names[1]) is None:
                holder.set(names[1], languages[1])
            given = tuple(str(holder.get(each, "?")) for each in names)
            if not all(is_same(*pair) or is_alike(*pair) for pair in zip(given, languages, strict=True)):
                models = " and ".join(languages)
                line = f"the document's languages are {given[0]} and {given[1]}, but the model's are {models}"
                if line not in self.notes:
                    self.notes.append(line)


def _parts(element: Any) -> dict[str, Any]:
    """`mid` and a number → element of a source or target that is a segment: the marked ones, or the whole."""
    marked = [each for each in element.iter(etree.Element) if each.get("mtype") == "seg"] or [element]
    seen: Counter[str] = Counter()
    parts = {}
    for each in marked:
        mark = each.get("mid", "")
        parts[f"{mark} {seen[mark]}"] = each
        seen[mark] += 1
    return parts


def _pieces(part: Any, whole: Any, is_closed: bool, active: Active) -> list[Piece]:
    """The pieces of a part of a source. Its unit and the elements around it say whether it is translated."""
    chain = [part]
    while chain[0].getparent() is not whole:
        chain.insert(0, chain[0].getparent())
    around = [(each, choice) for each in chain if (choice := own_choice(each)) is not None]
    closed = [(whole, False)] if is_closed else []
    active[:] = [*closed, *active, *around]
    pieces = INLINE.pieces(part, active)
    active[:] = [each for each in active if each not in [*closed, *around]]
    return pieces
