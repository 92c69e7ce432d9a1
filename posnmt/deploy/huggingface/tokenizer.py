"""The text pipeline of a run as a tokenizer for Transformers: tokenisation, truecasing and subwords of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from posnmt.data.subword import BOS, EOS, PAD, SPECIALS, UNK
from posnmt.data.text import SideText, TextPipeline

FILES = {
    "settings_file": "text.json",
    "source_file": "source.model",
    "target_file": "target.model",
    "source_truecase_file": "source.truecase.json",
    "target_truecase_file": "target.truecase.json",
    "source_vocabulary_file": "source.vocabulary.json",
    "target_vocabulary_file": "target.vocabulary.json",
}
"""Argument of the tokenizer → file, as `TextPipeline.save` writes them."""


class PosnmtTokenizer(PreTrainedTokenizer):
    """Encodes text as source subwords, or with `text_target=` as target subwords, and decodes target subwords.

    `</s>` is added after the subwords. Symbols such as `</s>` in a text are ordinary characters.

    Args:
        settings_file: `text.json` of a saved `TextPipeline`, with its other files beside it.
    """

    vocab_files_names = FILES
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012

    def __init__(
        self,
        settings_file: str,
        source_file: str | None = None,
        target_file: str | None = None,
        source_truecase_file: str | None = None,
        target_truecase_file: str | None = None,
        source_vocabulary_file: str | None = None,
        target_vocabulary_file: str | None = None,
        **options: Any,
    ) -> None:
        self.text = TextPipeline.load(Path(settings_file).parent)
        self._ids = {
            id(side): {piece: number for number, piece in enumerate(side.subwords.pieces)}
            for side in (self.text.source, self.text.target)
        }
        self._side: SideText = self.text.source
        pieces = self.text.target.subwords.pieces
        symbols = {"pad_token": PAD, "unk_token": UNK, "bos_token": BOS, "eos_token": EOS}
        options = {**{name: pieces[token] for name, token in symbols.items()}, **options}
        options.setdefault("padding_side", "right")
        super().__init__(**options)

    @property
    def vocab_size(self) -> int:
        """Entries of the vocabulary of the current side."""
        return self._side.size

    def get_vocab(self) -> dict[str, int]:
        """Piece → id of the current side."""
        return dict(self._ids[id(self._side)])

    def tokenize(self, text: str, **_: Any) -> list[str]:
        """The pieces of a text; an unknown one is `<unk>`."""
        pieces = self._side.subwords.pieces
        return [pieces[token] for token in self._side.encode([text])[0]]

    def _convert_token_to_id(self, token: str) -> int:
        return self._ids[id(self._side)].get(token, UNK)

    def _convert_id_to_token(self, index: int) -> str:
        return self.text.target.subwords.pieces[index]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """The text of pieces of the target."""
        ids = self._ids[id(self.text.target)]
        return self.text.target.decode([[ids[token] for token in tokens]])[0]

    def _decode(self, token_ids: int | Sequence[int], skip_special_tokens: bool = False, **_: Any) -> str:
        row = [token_ids] if isinstance(token_ids, int) else [int(token) for token in token_ids]
        if skip_special_tokens:
            return self.text.target.decode([row])[0]
        parts: list[list[int]] = [[]]
        for token in row:
            parts += [[token], []] if token < SPECIALS else []
            if token >= SPECIALS:
                parts[-1].append(token)
        pieces = self.text.target.subwords.pieces
        shown = [
            pieces[part[0]] if len(part) == 1 and part[0] < SPECIALS else self.text.target.decode([part])[0]
            for part in parts
            if part
        ]
        return " ".join(shown)

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """The subwords and `</s>`."""
        return [*token_ids_0, *(token_ids_1 or []), EOS]

    def _switch_to_input_mode(self) -> None:
        self._side = self.text.source

    def _switch_to_target_mode(self) -> None:
        self._side = self.text.target

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Write the files of the text pipeline, without the prefix, because the files refer to each other by name."""
        self.text.save(save_directory)
        paths = [Path(save_directory, name) for name in FILES.values()]
        return tuple(str(path) for path in paths if path.exists())
