"""Texts of other programs with tags, or with line ends inside sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from posnmt.deploy.documents.division import Translated
from posnmt.deploy.documents.fragments import parse_text, parse_xml
from posnmt.deploy.documents.markup import parse_html
from posnmt.deploy.documents.raw import RawDocument, Text
from posnmt.deploy.documents.segment import Segment, Sentence, TagRules, divide, has_letters, join


@dataclass(frozen=True)
class Layout:
    """How the texts of a request are divided into sentences.

    Attributes:
        tags: the kind of tags that they have; None: they are plain text.
        rules: what is to be done with some tags, and whether the end of a line ends a sentence.
        as_one: whether nothing but the rules ends a sentence.
    """

    tags: Literal["xml", "html"] | None
    rules: TagRules
    as_one: bool = False

    @classmethod
    def of_json(cls, tree: Mapping[str, Any]) -> Layout:
        """The layout that `as_json` wrote."""
        rules: dict[str, Any] = {
            name: frozenset(each) if isinstance(each, list) else each for name, each in tree["rules"].items()
        }
        return cls(tree["tags"], TagRules(**rules), tree["as_one"])

    def as_json(self) -> dict[str, Any]:
        """The layout as values that JSON has."""
        rules = {
            name: sorted(each) if isinstance(each, frozenset) else each for name, each in asdict(self.rules).items()
        }
        return {"tags": self.tags, "rules": rules, "as_one": self.as_one}

    def read(self, text: str, number: int) -> RawDocument:
        """Read a text.

        Args:
            number: its place among the texts of the request, for errors.

        Raises:
            UserError: it is not well-formed, or elements are nested too deeply.
        """
        name = Path(f"text[{number}]")
        if self.tags == "xml":
            return parse_xml(text, name, self.rules)
        if self.tags == "html":
            return parse_html(Text(text, "utf-8"), name, self.rules)
        return parse_text(text, self.rules.lines)


class Divided:
    """A text and its sentences.

    Args:
        text: the text.
        number: its place among the texts of the request, for errors.
        layout: how it is divided.
        language: the code of its language.

    Raises:
        UserError: as `Layout.read`.
    """

    def __init__(self, text: str, number: int, layout: Layout, language: str) -> None:
        self.document = layout.read(text, number)
        segments = [each for each in self.document.segments if each.has_letters]
        self._parts = [(each, divide(each, language, layout.as_one)) for each in segments]

    @property
    def lines(self) -> list[str]:
        """The sentences to translate."""
        return [each.text for _, sentences in self._parts for each in sentences if has_letters(each.text)]

    def filled(self, translations: Iterator[Translated]) -> bytes:
        """The text with translations in place of its sentences, as UTF-8.

        Args:
            translations: of the `lines`, in order; so many are taken.
        """
        for segment, sentences in self._parts:
            _fill(segment, sentences, translations)
        return self.document.content()


def _fill(segment: Segment, sentences: Sequence[Sentence], translations: Iterator[Translated]) -> None:
    """Put translations into a segment. One without words for the model, such as an address, stays as it is."""
    own = [next(translations) if has_letters(each.text) else None for each in sentences]
    if all(each is None or each.passed for each in own):
        return
    texts = [each.text if made is None else made.text for each, made in zip(sentences, own, strict=True)]
    segment.translated = join(sentences, [each.place(text) for each, text in zip(sentences, texts, strict=True)])
