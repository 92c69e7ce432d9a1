"""From text to text, by any engine: lines become parts, parts are searched, and their translations become lines again.

An engine searches, scores and aligns subwords. Everything around that is the same for all engines and stands here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.translate.alignments import Aligned
from posnmt.translate.constraints import with_prefixes, with_terms
from posnmt.translate.device import BATCH
from posnmt.translate.limits import refuse_longer, refuse_too_long
from posnmt.translate.mending import mended
from posnmt.translate.omissions import with_omissions
from posnmt.translate.options import EVERYTHING, refuse_unserved
from posnmt.translate.parts import in_parts, joined
from posnmt.translate.protect import protect, restored
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.search import Hypothesis
from posnmt.translate.several import as_trained, most_learned
from posnmt.translate.together import Found, grouped, search_together
from posnmt.translate.translations import Translation, as_text

if TYPE_CHECKING:
    from posnmt.data.text import TextPipeline

EACH_ALONE = {"nbest", "sampling", "mbr", "prefix", "terms"}
"""What lines that are translated together cannot have."""


class Engine(ABC):
    """A program that translates, with the text pipeline of its model.

    Attributes:
        name: of the program, with its version.
        who: the engine in error messages.
        serves: the settings of search, and the names in `posnmt.translate.options.ASKED`, that it has; it refuses all
            others.
        instead: what to do about what it does not serve.
        shorten: what to do about a line that is too long for its position table.
        hypotheses: its search, from parts to the hypotheses of each.
        computing: makes the context in which it computes translations.
        precision: of the products of translation, if it follows the device; None: `decode.precision`.
        text: the text pipeline.
        longest: the longest source with its end symbol and the longest target with its begin symbol; None: no limit.
        trained: subwords of the longest source sentence in training; None: not known.
        several: the shares of training sources with at least 1, 2, … sentences; None: not known.
        context: the most lines that were joined in training.
    """

    name: str
    who: str
    serves: frozenset[str]
    instead: str
    shorten: str
    hypotheses: Callable[[Sequence[Part], Search], list[list[Hypothesis]]]
    text: TextPipeline
    longest: tuple[int | None, int | None]
    trained: int | None
    several: Sequence[float] | None
    context: int = 1
    precision: str | None = None
    computing: Callable[[], AbstractContextManager[object]] = nullcontext

    @classmethod
    def refuse(cls, decode: Decode | None, asked: Collection[str] = ()) -> None:
        """Check that the engine serves what a translation needs; see `refuse_unserved`.

        Raises:
            UserError: it does not, and would ignore it.
        """
        refuse_unserved(cls.who, cls.serves, decode, asked, cls.instead)

    @property
    def aligns(self) -> bool:
        """Whether it can link the words of translations to those of their lines."""
        return False

    @property
    def notes(self) -> list[str]:
        """Notes for the user on how translations were computed."""
        return []

    @abstractmethod
    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch: int = 4096
    ) -> list[float]:
        """Log-probability (natural, eos included) of each target given its source, both as subwords.

        Args:
            batch: most padded subwords of a batch.
        """

    def links(
        self,
        lines: Sequence[str],
        sources: Sequence[Sequence[int]],
        hypotheses: Sequence[Sequence[Sequence[int]]],
        batch: int,
    ) -> list[Aligned]:
        """The links of the hypotheses of each line, of an engine that `aligns`; see `posnmt.translate.alignments`."""
        raise NotImplementedError

    def translate(self, requests: Sequence[Request], search: Search) -> list[Translation]:
        """Translate lines; one result for each, in order.

        Lines may be in parts (`decode.split`). With `decode.join`, consecutive lines are translated together; the first
        line begins such a group. `decode.complete` says what becomes of a translation that leaves out a sentence.

        Raises:
            UserError: something that the engine does not serve; a line too long for a finite position table, or one in
                parts with a prefix; lines together by models that are not trained for it, or with something that needs
                each line alone.
        """
        self._check(requests, search)
        given, source, target = search.decode, self.text.source, self.text.target
        search = replace(search, decode=as_trained(given), scored=search.scored or given.mbr > 0)
        encoded = source.encode([each.line for each in requests])
        if given.max_source is not None:
            refuse_longer(encoded, given.max_source, lambda index: requests[index].where)
        lines = in_parts(requests, encoded, source, given, self.trained, self.several)
        if (table := self.longest[0]) is not None:
            longest = [max((part.ids for part in line.parts), key=len) for line in lines]
            refuse_too_long(longest, table, lambda index: requests[index].where, self.shorten)
        parts = [part for line in lines for part in line.parts]
        if any(each.prefix for each in requests):
            parts = with_prefixes(lines, target, self.longest[1])
        parts = protect(parts, source, search.decode, search.terms)
        if search.terms is not None:
            parts = with_terms(parts, search.terms, target)
        with self.computing():
            if given.join > 1:
                found = self._together(parts, search)
            else:
                found = list(map(Found, self.hypotheses(parts, search)))
            translations = self._as_text(parts, found, search)
        translations = joined(lines, translations, search.decode)
        if search.terms is not None:
            translations = [each.with_missing(search.terms) for each in translations]
        if search.decode.complete == "mend":
            translations = mended(translations, source.words.language, search, self.serves, self.translate)
        return translations

    def _check(self, requests: Sequence[Request], search: Search) -> None:
        """Check that the engine serves everything that is asked for."""
        decode = search.decode
        asked = {"prefix": any(each.prefix for each in requests), "terms": search.terms, "alignments": search.aligned}
        names = [name for name, is_asked in asked.items() if is_asked]
        self.refuse(decode, names)
        if decode.join == 1:
            return
        if decode.join > self.context:
            known = f"joined at most {self.context} lines" if self.context > 1 else "joined none"
            todo = "leave it out, join fewer, or train with train.context"
            raise UserError(f"{decode.join} lines are to be translated together; training {known}", "decode.join", todo)
        names = [*["nbest"] * (search.nbest > 1), *names]
        who, todo = "lines that are translated together", "leave it out, or decode.join"
        refuse_unserved(who, EVERYTHING - EACH_ALONE, decode, names, todo)

    def _together(self, parts: Sequence[Part], search: Search) -> list[Found]:
        """What search finds for parts of lines, those of the lines of a block together."""
        of_lines: list[list[Part]] = []
        for part in parts:
            if part.place == 0:
                of_lines.append([])
            of_lines[-1].append(part)
        longest = self.longest[0]
        groups = grouped(of_lines, search.decode.join, None if longest is None else longest - 1)
        return search_together(groups, lambda some: self.hypotheses(some, search), search.decode.length_penalty)

    def _as_text(self, parts: Sequence[Part], found: Sequence[Found], search: Search) -> list[Translation]:
        """The translations of parts, with everything that did not go through the model."""
        decode = search.decode
        translations = as_text(self.text, parts, found, search)
        links = partial(self.links, batch=decode.batch or BATCH) if self.aligns else None
        if search.aligned:
            texts, rows = [part.model_text for part in parts], [part.ids for part in parts]
            aligned = self.links(texts, rows, [each.tokens for each in translations], decode.batch or BATCH)
            translations = [replace(each, aligned=own) for each, own in zip(translations, aligned, strict=True)]
        translations = restored(parts, translations, self.text.target, decode, links)
        score = partial(self.score, batch=decode.batch or BATCH)
        return with_omissions(parts, translations, decode, self.text, score, links, most_learned(self.several))
