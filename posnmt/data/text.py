"""From text to subword ids and back, for both sides of a model.

A saved pipeline is a folder with `source.model`, `target.model` (SentencePiece), `text.json` (settings) and, with
truecasing, `source.truecase.json` and `target.truecase.json`. With a shared vocabulary both model files are equal,
unless the vocabulary has files of its own, `source.vocabulary.json` and `target.vocabulary.json`
(`posnmt.data.subword`).
`pairs.tsv` has the pairs of subwords that share features of their embeddings, if a model does that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError, existing_file
from posnmt.base.files import load_json
from posnmt.data.forms import is_visible
from posnmt.data.subword import Subwords
from posnmt.data.tokenise import Truecaser, Words
from posnmt.data.word_pairs import WordPairs

SIDES = ("source", "target")
PAIRS = "pairs.tsv"


@dataclass(frozen=True)
class SideText:
    """The text pipeline of one language.

    Attributes:
        mark: of a target language, put before each text that is encoded; empty for no mark.
        marks: of the corpora that a model was trained on (`data.train`). One at the beginning of a text is a subword of
            its own, and the rest of the text is split as it would be without it.
        reads_forms: whether other forms replace characters that the vocabulary lacks (`posnmt.data.forms`). True for a
            source; a target is encoded as it is written.
    """

    words: Words
    subwords: Subwords
    mark: str = ""
    reads_forms: bool = False
    marks: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The size of the vocabulary, the 4 special symbols included."""
        return len(self.subwords)

    def split(self, text: str) -> str:
        """A text in the form that is split into subwords: tokenised; empty if it has invisible marks only."""
        for mark in self.marks:
            if (marked := text.lstrip()).startswith(mark):
                rest = replace(self, marks=()).split(marked[len(mark) :])
                return f"{mark} {rest}" if rest else ""
        if not is_visible(text):
            return ""
        tokenised = self.words.split(text)
        return self.subwords.readable(tokenised) if self.reads_forms else tokenised

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The subword ids of each text, without bos and eos; none for a text of invisible characters only."""
        if not self.mark:
            return self.subwords.encode(list(map(self.split, texts)))
        marked = (f"{self.mark} {text if is_visible(text) else ''}" for text in ("", *texts))
        [alone, *rows] = self.subwords.encode(list(map(self.split, marked)))
        return [row if len(row) > len(alone) else [] for row in rows]

    def encode_flat(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The ids of `encode`, concatenated [tokens], and the number of ids of each text [N], computed on one core."""
        return self.subwords.encode_flat(list(map(self.split, texts)))

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The detokenised text of each row of ids."""
        return [self.words.join(text) for text in self.subwords.decode(rows)]


@dataclass(frozen=True)
class TextPipeline:
    """The text pipelines of both sides; with one SentencePiece model for both, they have the same `Subwords`.

    Attributes:
        pairs: of source and target subwords, for an architecture that reads them.
    """

    source: SideText
    target: SideText
    pairs: WordPairs | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", replace(self.source, reads_forms=True))

    def with_marks(self, marks: Sequence[str]) -> TextPipeline:
        """The pipeline that also knows the marks of corpora."""
        known = tuple(dict.fromkeys([*self.source.marks, *marks]))
        return replace(self, source=replace(self.source, marks=known))

    def marked(self, mark: str) -> TextPipeline:
        """The pipeline that has a mark before each source text."""
        return replace(self, source=replace(self.source, mark=mark))

    @property
    def shared(self) -> bool:
        """Whether both sides have one vocabulary; each may have its own model that splits text into it."""
        source, target = self.source.subwords, self.target.subwords
        return source is target or (source.entries is not None and source.entries == target.entries)

    def save(self, folder: str | Path) -> None:
        """Write the pipeline into a folder, which is created if necessary."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, object] = {"shared": self.shared}
        for name in SIDES:
            side: SideText = getattr(self, name)
            side.subwords.save(folder / f"{name}.model")
            truecaser = side.words.truecaser
            if truecaser is not None:
                truecaser.save(folder / f"{name}.truecase.json")
            settings[name] = {
                "language": side.words.language,
                **({"rules": side.words.rules} if side.words.rules != side.words.language else {}),
                "tokenise": side.words.tokeniser,
                "truecase": truecaser is not None,
            }
        if self.pairs is not None:
            self.pairs.save(folder / PAIRS)
        if self.source.marks:
            settings["marks"] = list(self.source.marks)
        text = json.dumps(settings, ensure_ascii=False, indent=2) + "\n"
        (folder / "text.json").write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: str | Path) -> TextPipeline:
        """Read what `save` wrote.

        Raises:
            UserError: a file is missing or invalid.
        """
        folder = Path(folder)
        path = folder / "text.json"
        settings = load_json(path, dict[str, Any], "text settings", "prepare the store again")
        try:
            sides = [_load_words(folder, name, settings[name]) for name in SIDES]
            shared = bool(settings["shared"])
            marks = tuple(map(str, settings.get("marks", ())))
        except (ValueError, KeyError, TypeError):
            raise UserError("not the settings of a text pipeline", path, "prepare the store again") from None
        source = Subwords.load(folder / "source.model")
        target = source if shared and source.entries is None else Subwords.load(folder / "target.model")
        pairs = WordPairs.load(folder / PAIRS, len(source), len(target)) if (folder / PAIRS).exists() else None
        return cls(SideText(sides[0], source, marks=marks), SideText(sides[1], target), pairs)


def text_hash(folder: str | Path) -> str:
    """SHA-256 of a saved pipeline, which identifies the meaning of its subword ids.

    Raises:
        UserError: there is no saved pipeline in the folder.
    """
    existing_file(Path(folder) / "text.json", "text settings")
    digest = hashlib.sha256()
    for path in sorted(Path(folder).iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _load_words(folder: Path, name: str, settings: dict[str, object]) -> Words:
    """The tokenisation and truecasing of one side."""
    truecaser = Truecaser.load(folder / f"{name}.truecase.json") if settings["truecase"] else None
    language = str(settings["language"])
    return Words(language, str(settings["tokenise"]), truecaser, str(settings.get("rules", language)))
