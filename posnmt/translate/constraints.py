"""What the translations of parts must have: the prefixes of their lines, and the terms of a glossary, as subwords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from posnmt.base.errors import UserError
from posnmt.data.subword import UNK
from posnmt.translate.limits import SHORTEN, refuse_too_long
from posnmt.translate.parts import Line
from posnmt.translate.requests import Part, Request
from posnmt.translate.terms import Terms, contains, ends_with, subwords_of

if TYPE_CHECKING:
    from posnmt.data.text import SideText


def with_prefixes(lines: Sequence[Line], target: SideText, longest: int | None) -> list[Part]:
    """The parts of all lines in order, with the prefixes of their translations, of which there is at least one.

    Args:
        target: the text pipeline of translations.
        longest: entries of the decoder's position table; None: no limit.

    Raises:
        UserError: a prefix that has characters which the vocabulary lacks or that is too long, or a line in parts that
            has a prefix.
    """
    begun = [line for line in lines if line.request.prefix]
    rows = target.encode([line.request.prefix for line in begun])
    for line, row in zip(begun, rows, strict=True):
        if UNK in row:
            _refuse_unknown(line.request, target)
    if longest is not None:
        refuse_too_long(rows, longest, lambda index: _where(begun[index].request), SHORTEN)
    for line in begun:
        if len(line.parts) > 1:
            what, todo = f"a line in {len(line.parts):,} parts cannot have a given beginning", "decode.split=off"
            raise UserError(what, line.request.where, f"leave its prefix empty, or translate it with {todo}")
    remaining = iter(rows)
    return [
        replace(part, prefix=next(remaining)) if line.request.prefix else part for line in lines for part in line.parts
    ]


def _refuse_unknown(request: Request, target: SideText) -> None:
    lacks = target.subwords.lacks
    shown = ", ".join(repr(each) for each in dict.fromkeys(request.prefix) if not each.isspace() and lacks(each))
    what = f"a prefix contains characters that the vocabulary lacks{shown and ': '}{shown}"
    raise UserError(what, _where(request), "write it in others, or leave it empty")


def _where(request: Request) -> str:
    return f"the prefixes:{request.number}"


def with_terms(parts: Sequence[Part], terms: Terms, target: SideText) -> list[Part]:
    """Parts with the terms that their texts ask for, except those that stand in their prefixes.

    Args:
        target: the text pipeline of translations.
    """
    named = [terms.required(part.model_text) for part in parts]
    lacking = [
        [term for term in of_part if not contains(part.request.prefix, term)]
        for part, of_part in zip(parts, named, strict=True)
    ]
    subwords = subwords_of({term for of_part in lacking for term in of_part}, target)
    return [
        replace(
            part,
            terms=[subwords[term] for term in missing if term in subwords],
            closed=any(ends_with(part.request.prefix, term) for term in of_part),
        )
        for part, of_part, missing in zip(parts, named, lacking, strict=True)
    ]
