"""Texts of other programs with tags, or with line ends inside sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from posnmt.deploy.documents.fragments import parse_text, parse_xml
from posnmt.deploy.documents.markup import parse_html
from posnmt.deploy.documents.raw import RawDocument, Text
from posnmt.deploy.documents.segment import TagRules


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
        """Read the layout from values that `as_json` returned."""
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
