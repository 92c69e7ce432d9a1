"""Tokenisation and truecasing of the text of one side, and the inverse.

Moses' tokenisation and truecasing have the same results as sacremoses. Characters such as `&`, `|` or `<` are not
escaped. Detokenisation is that of Moses, which restores usual typography but not every blank. The word segmenters of
`segment.py` are for Japanese and Chinese.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from typing_extensions import TypedDict

from posnmt.base.files import load_json
from posnmt.config.schema import Tokeniser
from posnmt.config.segmenters import SEGMENTERS
from posnmt.data.moses import MosesTokeniser
from posnmt.data.segment import Segmenter

# Truecasing assumes that a sentence starts after one of the first, or after one of them and one of the second.
_SENTENCE_END = frozenset(".:?!")
_BEFORE_SENTENCE = frozenset(["(", "[", '"', "'", "&apos;", "&quot;", "&#91;", "&#93;"])
# Tags and factors, which sacremoses treats separately.
_TAG = re.compile(r"<\S[^>]*>")
_MARKUP = re.compile(r"[<>|\n]")


class TruecaseLearner:
    """Counts the forms of each word inside sentences; memory grows with the number of words.

    Attributes:
        forms: frequency of each form, in the order of the text.
    """

    def __init__(self) -> None:
        from sacremoses.corpus import Perluniprops

        self.forms: Counter[str] = Counter()
        self._letters = frozenset(
            letter for kind in ("Lowercase_Letter", "Uppercase_Letter") for letter in Perluniprops().chars(kind)
        )

    def add(self, text: str) -> None:
        """Count the words of one tokenised line, as sacremoses' `learn_truecase_weights` does."""
        first = True
        counted = []
        for token in text.split():
            if ("<" in token and _TAG.search(token)) or token in _BEFORE_SENTENCE:
                continue
            if not first and token in _SENTENCE_END:
                first = True
                continue
            if not first and not self._letters.isdisjoint(token):
                counted.append(token)
            first = False
        self.forms.update(counted)

    def truecaser(self) -> Truecaser:
        """The learned truecaser: the most frequent form of each word, and the other forms."""
        words: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for form, count in self.forms.items():
            words[form.lower()][form] = count
        best: dict[str, str] = {}
        other: list[str] = []
        for lower, forms in words.items():
            (form, _), *rest = forms.most_common()
            best[lower] = form
            other.extend(form for form, _ in rest)
        return Truecaser(best, other)


class _Saved(TypedDict):
    """The content of the file of a truecaser."""

    best: dict[str, str]
    other: list[str]


class Truecaser:
    """Restores the usual case of the first word of a sentence, and the inverse.

    Args:
        best: lower-cased word → its most frequent form.
        other: other forms, which are not changed inside a sentence.
    """

    def __init__(self, best: dict[str, str], other: list[str]) -> None:
        self._best, self._other = best, other
        self._known = frozenset(other)

    def __reduce__(self) -> tuple[type[Truecaser], tuple[dict[str, str], list[str]]]:
        return Truecaser, (self._best, self._other)

    def truecase(self, text: str) -> str:
        """One tokenised line, truecased as by sacremoses with `use_known=True`."""
        if _MARKUP.search(text):
            return self._moses.truecase(text, return_str=True, use_known=True)
        first = True
        tokens = []
        for token in text.split():
            best = self._best.get(token.lower())
            if best and (first or token not in self._known):
                token = best
            tokens.append(token)
            first = token in _SENTENCE_END or (first and token in _BEFORE_SENTENCE)
        return " ".join(tokens)

    def detruecase(self, text: str) -> str:
        """One tokenised line with capital letters at the start of sentences."""
        return self._back.detruecase(text, return_str=True)

    @cached_property
    def _moses(self) -> Any:
        from sacremoses import MosesTruecaser

        moses = MosesTruecaser()
        moses.model = {"best": self._best, "known": self._known}
        return moses

    @cached_property
    def _back(self) -> Any:
        from sacremoses import MosesDetruecaser

        return MosesDetruecaser()

    def save(self, path: Path) -> None:
        """Write the truecasing model to a JSON file."""
        model = {"best": self._best, "other": self._other}
        path.write_text(json.dumps(model, ensure_ascii=False, indent=0) + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: Path) -> Truecaser:
        """Read a truecasing model that `save` wrote."""
        model = load_json(path, _Saved, "truecasing model", "prepare the store, or copy the run folder, again")
        return cls(model["best"], model["other"])


class Words:
    """The step between text and subwords: nothing, or tokenisation, or Moses' tokenisation and truecasing.

    Args:
        language: code.
        tokeniser: `none`, `moses`, or a segmenter (`mecab`, `jieba`); only `split` needs its packages.
        truecaser: the learned truecasing of this language, or None.
        rules: code for Moses' rules, such as `fr` for the language `fr-CA` or `fra`; default: that of the language.
            Languages without rules in sacremoses have the English ones.

    Raises:
        ValueError: an unknown tokeniser.
    """

    def __init__(
        self, language: str, tokeniser: str = "none", truecaser: Truecaser | None = None, rules: str | None = None
    ) -> None:
        if tokeniser not in get_args(Tokeniser):
            raise ValueError(f"no tokeniser is called {tokeniser!r}")
        self.language, self.tokeniser, self.truecaser = language, tokeniser, truecaser
        self.rules = rules or language
        self._moses = MosesTokeniser(self.rules) if tokeniser == "moses" else None
        self._segmenter = Segmenter(tokeniser) if tokeniser in SEGMENTERS else None

    @cached_property
    def _moses_detokeniser(self) -> Any:
        from sacremoses import MosesDetokenizer

        return MosesDetokenizer(self.rules)

    def split(self, text: str) -> str:
        """The text as tokens separated by single blanks, the input of subwords.

        Raises:
            UserError: the packages of the segmenter are not installed.
        """
        tokeniser = self._moses or self._segmenter
        if tokeniser is not None:
            text = tokeniser.tokenise(text)
        return self.truecaser.truecase(text) if self.truecaser else text

    def split_all(self, texts: list[str]) -> list[str]:
        """Tokenise each of several texts with `split`."""
        return [self.split(text) for text in texts]

    def join(self, text: str) -> str:
        """Detokenise a text: undo `split` as far as its rules allow."""
        if self.truecaser:
            text = self.truecaser.detruecase(text)
        if self._segmenter is not None:
            return self._segmenter.detokenise(text)
        return self._moses_detokeniser.detokenize(text.split(), unescape=False) if self._moses else text
