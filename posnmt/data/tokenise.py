"""Moses tokenisation and truecasing (sacremoses), and the way back.

Nothing is escaped, so that `&`, `|` or `<` reach the subwords as they are. The way back is Moses' own: it restores
usual typography, not every blank of the text.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from posnmt.errors import UserError, existing_file


class TruecaseLearner:
    """Counts how each word is written where a sentence does not start; memory grows with the number of words."""

    def __init__(self) -> None:
        from sacremoses import MosesTruecaser

        self._moses = MosesTruecaser()
        self._forms: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, text: str) -> None:
        """Count the words of one tokenised line."""
        for lower, form, weight in self._moses.learn_truecase_weights(text.split()):
            self._forms[lower][form] += weight

    def truecaser(self) -> Truecaser:
        """What was learned: the most frequent form of each word, and the other forms that occurred."""
        best: dict[str, str] = {}
        other: list[str] = []
        for lower, forms in self._forms.items():
            (form, _), *rest = forms.most_common()
            best[lower] = form
            other.extend(form for form, _ in rest)
        return Truecaser(best, other)


class Truecaser:
    """Writes the first word of a sentence as it is written elsewhere, and back.

    Args:
        best: lower-cased word → its most frequent form.
        other: further forms that occurred; inside a sentence these are left alone.
    """

    def __init__(self, best: dict[str, str], other: list[str]) -> None:
        from sacremoses import MosesDetruecaser, MosesTruecaser

        self._best, self._other = best, other
        self._forward: Any = MosesTruecaser()
        self._forward.model = {"best": best, "known": frozenset(other)}
        self._back: Any = MosesDetruecaser()

    def truecase(self, text: str) -> str:
        """One tokenised line, truecased."""
        return self._forward.truecase(text, return_str=True, use_known=True)

    def detruecase(self, text: str) -> str:
        """One tokenised line with capital letters where sentences start."""
        return self._back.detruecase(text, return_str=True)

    def save(self, path: Path) -> None:
        """Write the model as JSON."""
        model = {"best": self._best, "other": self._other}
        path.write_text(json.dumps(model, ensure_ascii=False, indent=0) + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: Path) -> Truecaser:
        """Read what `save` wrote."""
        try:
            model = json.loads(existing_file(path, "truecasing model").read_text(encoding="utf-8"))
            return cls(model["best"], model["other"])
        except (ValueError, KeyError, TypeError):
            raise UserError("not a truecasing model", path, "prepare the store, or copy the run folder, anew") from None


class Words:
    """The step between text and subwords: nothing, or Moses tokenisation, or that and truecasing.

    Args:
        language: code for Moses' rules; a language that sacremoses has no rules for gets the English ones.
        tokenise: whether to tokenise at all.
        truecaser: the learned truecasing of this language, or none.
    """

    def __init__(self, language: str, tokenise: bool, truecaser: Truecaser | None = None) -> None:
        self.language, self.tokenised, self.truecaser = language, tokenise, truecaser
        if tokenise:
            from sacremoses import MosesDetokenizer, MosesTokenizer

            self._tokeniser: Any = MosesTokenizer(language)
            self._detokeniser: Any = MosesDetokenizer(language)

    def split(self, text: str) -> str:
        """Text as it goes into subwords: tokens with one blank between them."""
        if self.tokenised:
            text = self._tokeniser.tokenize(text, return_str=True, escape=False)
        return self.truecaser.truecase(text) if self.truecaser else text

    def join(self, text: str) -> str:
        """The way back from `split`."""
        if self.truecaser:
            text = self.truecaser.detruecase(text)
        return self._detokeniser.detokenize(text.split(), unescape=False) if self.tokenised else text
