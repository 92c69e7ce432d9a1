"""The text pipeline of a run as a tokenizer for Transformers: tokenisation, truecasing and subwords of both sides."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from posnmt.data.subword import BOS, EOS, PAD, SPECIALS, UNK
from posnmt.data.text import SideText, TextPipeline
from posnmt.deploy.huggingface.config import TOKENIZER_MAP

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

    `</s>` is added after the subwords. Symbols such as `</s>` in a text are ordinary characters. Tokens of `add_tokens`
    are found wherever they stand in a text; with vocabularies of their own for both sides there can be none.

    Args:
        settings_file: `text.json` of a saved `TextPipeline`, with its other files beside it.
    """

    vocab_files_names = FILES
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012
    _auto_map = TOKENIZER_MAP

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
        """Entries of the vocabulary of the current side, without added tokens."""
        return self._side.size

    def get_vocab(self) -> dict[str, int]:
        """Piece or added token → id of the current side."""
        return {**self._ids[id(self._side)], **self._new}

    @property
    def _new(self) -> dict[str, int]:
        """Token that is no piece, but was added → id."""
        return {token: number for token, number in self._added_tokens_encoder.items() if number >= self._side.size}

    def _add_tokens(self, new_tokens: Sequence[Any], special_tokens: bool = False) -> int:
        """Add tokens after the vocabulary, as Transformers does.

        Raises:
            ValueError: a token is new, and both sides have vocabularies of their own.
        """
        known = self._ids[id(self._side)]
        new = [str(token) for token in new_tokens if str(token) and str(token) not in known]
        if new and not self.text.shared:
            raise ValueError(
                f"{new[0]!r} cannot be added: source and target have vocabularies of their own, with "
                f"{self.text.source.size} and {self.text.target.size} subwords; train with subword.shared: true"
            )
        added: int = super()._add_tokens(new_tokens, special_tokens)
        return added

    def tokenize(self, text: str, **_: Any) -> list[str]:
        """The pieces of a text and the added tokens in it; an unknown piece is `<unk>`."""
        pieces, new = self._side.subwords.pieces, self._new
        if not new:
            return [pieces[token] for token in self._side.encode([text])[0]]
        parts = re.split("|".join(f"({re.escape(token)})" for token in sorted(new, key=len, reverse=True)), text)
        shown = []
        for part in filter(None, parts):
            shown += [part] if part in new else [pieces[token] for token in self._side.encode([part])[0]]
        return shown

    def _convert_token_to_id(self, token: str) -> int:
        return self._ids[id(self._side)].get(token, UNK)

    def _convert_id_to_token(self, index: int) -> str:
        return self.text.target.subwords.pieces[index]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """The text of pieces of the target and of added tokens."""
        ids = {**self._ids[id(self.text.target)], **self._new}
        return self._decode([ids[token] for token in tokens], skip_special_tokens=True)

    def _decode(self, token_ids: int | Sequence[int], skip_special_tokens: bool = False, **_: Any) -> str:
        """The text of target tokens; symbols and added tokens stand alone, between blanks.

        Raises:
            ValueError: an id is no subword and no added token.
        """
        row = [token_ids] if isinstance(token_ids, int) else [int(token) for token in token_ids]
        known = self._added_tokens_decoder
        for token in row:
            if token >= self.text.target.size and token not in known:
                raise ValueError(
                    f"token {token} has no text: the vocabulary has {self.text.target.size} subwords and "
                    f"{len(self._new)} added tokens; resize the model to len(tokenizer)"
                )
        if skip_special_tokens:
            row = [token for token in row if token < SPECIALS or token not in known or not known[token].special]

        def alone(token: int) -> bool:
            return token >= self.text.target.size or (token < SPECIALS and not skip_special_tokens)

        shown: list[str] = []
        for is_alone, run in itertools.groupby(row, alone):
            tokens = list(run)
            shown += self.convert_ids_to_tokens(tokens) if is_alone else self.text.target.decode([tokens])
        return " ".join(filter(None, shown))

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Append `</s>` to subwords; a second list stands directly after the first."""
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
