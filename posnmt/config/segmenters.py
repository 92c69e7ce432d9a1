"""The word segmenters that a configuration can name: their languages and the packages that they need."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import NamedTuple

from posnmt.base.errors import UserError


class Needs(NamedTuple):
    """The language of a segmenter and its requirements.

    Attributes:
        language: its name.
        codes: language codes, without region or script.
        extra: the extra of posnmt that installs its packages.
        packages: distribution name → module.
    """

    language: str
    codes: tuple[str, ...]
    extra: str
    packages: dict[str, str]

    def serves(self, code: str) -> bool:
        """Whether it supports a language, by a code such as `zh` or `zh-Hant`."""
        return re.split("[-_]", code.lower())[0] in self.codes


SEGMENTERS = {
    "mecab": Needs("Japanese", ("ja", "jpn"), "ja", {"mecab-python3": "MeCab", "ipadic": "ipadic"}),
    "jieba": Needs("Chinese", ("zh", "zho", "chi", "cmn"), "zh", {"rjieba": "rjieba"}),
}


def word_tokeniser(code: str) -> str:
    """The tokeniser that defines words in a language: a segmenter for languages without blanks, else Moses."""
    return next((name for name, needs in SEGMENTERS.items() if needs.serves(code)), "moses")


def requires(tokeniser: str) -> None:
    """Check that the packages of a segmenter are installed; other names need none.

    Raises:
        UserError: a package is missing; the message names the extra that installs it.
    """
    needs = SEGMENTERS.get(tokeniser)
    missing = [name for name, module in needs.packages.items() if find_spec(module) is None] if needs else []
    if needs and missing:
        raise UserError(
            f"{tokeniser} segments {needs.language} and is not installed (missing: {', '.join(missing)})",
            "data.tokenise",
            f"pip install 'posnmt[{needs.extra}]'",
        )
