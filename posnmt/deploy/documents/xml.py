"""Reading and writing of XML documents, safely: without entities and network. Inline elements become tags."""

from __future__ import annotations

import codecs
import copy
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lxml import etree

from posnmt.base.errors import UserError
from posnmt.data.tmx import refuse_entities
from posnmt.deploy.documents.segment import Kept, Piece, Tag, has_letters

PRESERVED = "{http://www.w3.org/XML/1998/namespace}space"

ITS = "{http://www.w3.org/2005/11/its}translate"
"""The attribute `translate` of the Internationalization Tag Set, which is allowed in documents of any format."""

NOT_TRANSLATED = 'translate="no"'
"""The reason to keep an element that asks for it."""

OPENING = frozenset(["bpt", "bx", "sc", "sm"])
CLOSING = frozenset(["ept", "ex", "ec", "em"])
"""Elements of TMX and XLIFF that stand for one tag of a pair. `it` can be either, by its attribute `pos`."""

SAVE = "save the document again"
"""What to do about a document that is no XML."""


class Tree:
    """A parsed document.

    Raises:
        UserError: the file is not well-formed, declares entities, has more than 10 MB of text in one element, or has
            another root element.
    """

    def __init__(self, data: bytes, path: Path, root: str) -> None:
        refuse_entities(io.BytesIO(data), path, SAVE)
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=False)
        try:
            self.tree = etree.parse(io.BytesIO(data), parser)
        except etree.XMLSyntaxError as error:
            what = "not well-formed XML: " + str(error.msg).partition(", line ")[0]  # the place is given below
            raise UserError(what, f"{path}:{error.lineno}", SAVE) from None
        self.root = self.tree.getroot()
        self._end = "\n" * data.endswith(b"\n")
        if name(self.root) != root:
            what = f"the first element is {name(self.root)}, but {root} was expected"
            raise UserError(what, path, "name the document's format with --document")

    def content(self) -> bytes:
        """The document as a file, in its own encoding."""
        info = self.tree.docinfo
        encoding, standalone = info.encoding or "UTF-8", info.standalone or None
        written: bytes = etree.tostring(self.tree, encoding=encoding, xml_declaration=True, standalone=standalone)
        return written + self._end.encode(encoding).removeprefix(codecs.BOM_UTF16)


def name(element: Any) -> str:
    """The name of an element without its namespace; empty for comments and processing instructions."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def children(element: Any, child_name: str) -> list[Any]:
    """The children with a name, in any namespace."""
    return [each for each in element if name(each) == child_name]


def new_element(like: Any, new_name: str) -> Any:
    """A new element in the namespace of another one."""
    namespace = etree.QName(like).namespace
    return etree.Element(etree.QName(namespace, new_name), nsmap=like.nsmap)


@dataclass(frozen=True)
class Pair:
    """The content of a tag that begins or ends an element."""

    element: Any


def insert_after(element: Any, new: Any, indent: str | None) -> None:
    """Put a new element after another one, with white space between them."""
    parent = element.getparent()
    new.tail, element.tail = element.tail, indent
    parent.insert(parent.index(element) + 1, new)


Active = list[tuple[Any, bool]]
"""Open elements, or ids of open markers, that say whether their text is translated, and what they say; innermost
last."""


class Inline:
    """Reads text with inline elements.

    Args:
        pairs: names of elements whose content is text. All other elements are kept as they are, with their content.
    """

    def __init__(self, pairs: Collection[str]) -> None:
        self.pairs = frozenset(pairs)

    def pieces(self, element: Any, active: Active | None = None) -> list[Piece]:
        """The text and the tags in an element. Line breaks are tags if white space is preserved.

        Text that is not translated is a tag too, with the text as its content.

        Args:
            element: the element.
            active: the open elements and markers where it begins; changed to those where it ends.
        """
        lines = next((each.get(PRESERVED) for each in (element, *element.iterancestors()) if each.get(PRESERVED)), "")
        return list(self._pieces(element, lines == "preserve", [] if active is None else active))

    def _pieces(self, element: Any, lines: bool, active: Active) -> Iterator[Piece]:
        yield from _text(element.text, lines, active)
        for child in element:
            own = own_choice(child)
            if name(child) in self.pairs and (own is not False or any(map(own_choice, child.iter()))):
                inside = [*active] if own is None else [*active, (child, own)]
                yield Tag("open", Pair(child))
                yield from self._pieces(child, lines, inside)
                yield Tag("close", Pair(child))
                active[:] = [each for each in inside if each[0] is not child]
            else:
                yield Tag(_kind(child), child)
                if name(child) == "sm" and own is not None:
                    active.append((child.get("id"), own))
                elif name(child) == "em":
                    active[:] = [each for each in active if each[0] != child.get("startRef")]
            yield from _text(child.tail, lines, active)


def stated(element: Any) -> str:
    """The element's attribute `translate`: `yes`, `no`, or empty if it has none."""
    return str(element.get("translate") or element.get(ITS) or "")


def own_choice(element: Any) -> bool | None:
    """Whether the text of an element is translated by its own attributes; None if they do not say."""
    if stated(element) in ("no", "yes"):
        return stated(element) == "yes"
    return False if element.get("mtype") == "protected" else None


def _text(text: str | None, lines: bool, active: Active) -> Iterator[Piece]:
    if not text:
        return
    if active and not active[-1][1]:
        yield Tag("alone", text)
        return
    for each in re.split(r"(\n)", text) if lines else [text]:
        if each:
            yield Tag("alone", each, separates=True) if each == "\n" and lines else each


def text_of(element: Any, without: Collection[Any] = ()) -> str:
    """The text in an element, without comments and without the text of the elements in `without`."""
    inside = (text_of(each, without) if name(each) and each not in without else "" for each in element)
    rest = (text + (each.tail or "") for text, each in zip(inside, element, strict=True))
    return "".join([element.text or "", *rest])


def kept(line: int, text: str, reason: str) -> list[Kept]:
    """A list with a text that is not translated; an empty list if it has no letters."""
    return [Kept(line, text.strip(), reason)] if has_letters(text) else []


def kept_in(pieces: Sequence[Piece], line: int) -> list[Kept]:
    """The texts in the tags of a segment, which are not translated."""
    texts: list[Kept] = []
    for content in (each.content for each in pieces if isinstance(each, Tag)):
        if isinstance(content, str):
            texts += kept(line, content, NOT_TRANSLATED)
        elif not isinstance(content, Pair) and own_choice(content) is False:
            texts += kept(content.sourceline, text_of(content), NOT_TRANSLATED)
        elif not isinstance(content, Pair) and name(content):
            for each in filter(name, content.iter()):
                texts += kept(each.sourceline, text_of(each, [*each]), f"<{name(each)}>")
    return texts


def kept_elsewhere(element: Any, outer: Collection[str], done: Collection[Any]) -> Iterator[Kept]:
    """The texts in an element that are not in the elements `done`.

    Args:
        element: the element.
        outer: names of elements that only contain other elements.
        done: elements whose texts have been read.
    """
    yield from kept(element.sourceline, text_of(element, [*element]), f"<{name(element)}>")
    for child in filter(name, element):
        if child not in done:
            if name(child) in outer:
                yield from kept_elsewhere(child, outer, done)
            else:
                yield from kept(child.sourceline, text_of(child), f"<{name(child)}>")


def _kind(element: Any) -> Literal["open", "close", "alone"]:
    place = element.get("pos", "") if name(element) == "it" else ""
    if name(element) in OPENING or place in ("begin", "open"):
        return "open"
    return "close" if name(element) in CLOSING or place in ("end", "close") else "alone"


def fill(element: Any, pieces: Sequence[Piece]) -> None:
    """Replace the content of an element."""
    for child in list(element):
        element.remove(child)
    element.text = None
    inside = [element]
    for piece in pieces:
        content = piece if isinstance(piece, str) else piece.content
        if isinstance(content, str):
            _append(inside[-1], content)
        elif not isinstance(content, Pair):
            alone = copy.deepcopy(content)
            alone.tail = None
            inside[-1].append(alone)
        elif isinstance(piece, Tag) and piece.kind == "open":
            whole = content.element
            inside.append(etree.SubElement(inside[-1], whole.tag, whole.attrib, whole.nsmap))
        else:
            inside.pop()


def _append(element: Any, text: str) -> None:
    """Add text at the end of an element."""
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text
