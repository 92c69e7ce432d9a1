"""SentencePiece subwords, BPE or unigram, learned from a random sample.

Text is normalised according to `subword.normalisation`. `identity` keeps every character but control characters;
`nfkc` and SentencePiece's own default, `nmt_nfkc`, replace characters by their compatibility forms. Every setting
collapses runs of blanks. In a source, a character outside the vocabulary is read as another form of it if one is known
(`posnmt.data.forms`). Otherwise it is spelled in bytes (`subword.byte_fallback`), or becomes `UNK`.

A model of another toolkit may have its own vocabulary beside the SentencePiece model: `entries` has its pieces, from a
file beside the model. Pieces of the SentencePiece model that are not among them are `UNK`.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import re
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError, existing_file, is_out_of_memory
from posnmt.base.files import load_json
from posnmt.base.parallel.cores import refuse_without_room
from posnmt.base.progress import waited_for
from posnmt.config.schema import Subword
from posnmt.data.forms import CONTROLS, Forms

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = 4
# Between sentences that are translated together. BOS is nowhere else in them, so that every vocabulary has it.
BREAK = BOS
# SentencePiece's mark for unknown characters; training silently skips lines that contain it.
_RESERVED = "\u2585"
# The names of special entries in a text: training does not count their characters.
_MARK = re.compile("<(?=(?:/?s|unk|pad)>)")
# Characters that end a line or a column; a translation has none.
BREAKS = re.compile("[\0\t-\r\x1c-\x1f\x85\u2028\u2029]")
# A subword of one byte, in models with `subword.byte_fallback`.
BYTE = re.compile("<0x([0-9A-F]{2})>")
# SentencePiece's symbol for a blank.
BLANK = "\u2581"
# Characters of cached words, some 40 MB. The cache is cleared when it is full: frequent words return soon.
REMEMBERED = 2**20

THREADS = 8
"""That learn subwords; fixed, since the result of unigram training depends on their number."""

LONGEST = 1000
"""The most bytes of a piece, and of what a character is replaced by: a text may have it at every place."""

AGAIN = "get the file again, or prepare the store again"
"""Advice about a damaged file of a text pipeline."""

Flat = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Ids of several texts, concatenated [tokens], and the number of ids of each text [N]."""

Item = TypeVar("Item")


class Reservoir(Generic[Item]):
    """A uniform random sample of a stream of unknown length (algorithm R); a short stream is kept in full, in order."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seen = size, 0
        self.items: list[Item] = []
        self._random = random.Random(seed)

    def add(self, item: Item) -> None:
        """Offer the next item of the stream."""
        self.seen += 1
        if len(self.items) < self.size:
            self.items.append(item)
        elif (place := self._random.randrange(self.seen)) < self.size:
            self.items[place] = item


class Subwords:
    """A SentencePiece model: text ↔ ids. Can be pickled for worker processes.

    Args:
        model: the model file's bytes.
        entries: the vocabulary by id, in SentencePiece's form, special symbols first, if it is not that of the model.
    """

    def __init__(self, model: bytes, entries: Sequence[str] | None = None) -> None:
        import sentencepiece

        self.model, self.entries = model, None if entries is None else list(entries)
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._words: dict[str, bytes] = {}
        self._remembered = 0
        self._forms = Forms(self._knows)
        self._known = {" "}

    def __reduce__(self) -> tuple[type[Subwords], tuple[bytes, list[str] | None]]:
        return Subwords, (self.model, self.entries)

    def __len__(self) -> int:
        """The size of the vocabulary, the 4 special symbols included."""
        return len(self._processor) if self.entries is None else len(self.entries)

    @cached_property
    def pieces(self) -> list[str]:
        """All entries by id, in SentencePiece's form (`▁` for a blank)."""
        return self._own_pieces if self.entries is None else self.entries

    @property
    def _own_pieces(self) -> list[str]:
        """The pieces of the SentencePiece model."""
        return [self._processor.id_to_piece(index) for index in range(len(self._processor))]

    @cached_property
    def _ids(self) -> dict[str, int]:
        """The id of each piece, for a vocabulary that is not that of the model."""
        return {piece: number for number, piece in enumerate(self.pieces) if number >= SPECIALS}

    @cached_property
    def _whole_words(self) -> bool:
        """Whether every piece of the SentencePiece model but the unknown one begins with a blank."""
        return all(piece.startswith(BLANK) for piece in self._own_pieces[1:])

    def _knows(self, text: str) -> bool:
        """Whether the vocabulary has each character of a text, or what it is normalised to."""
        alone = str(self._processor.normalize(text)).removeprefix(BLANK)
        unknown = self._processor.unk_id()
        return all(s == BLANK or s in self._ids or self._processor.piece_to_id(s) != unknown for s in alone)

    def readable(self, text: str) -> str:
        """A text in which other forms stand for the characters that the vocabulary lacks (`posnmt.data.forms`).

        Models of whole words have no characters, and read texts as they are.
        """
        if self._known.issuperset(text) or self._whole_words:
            return text
        if not self._knows(text):
            text = unicodedata.normalize("NFC", text)
        changed = text.translate(self._forms)
        self._known.update(sign for sign in set(text) if self._forms[ord(sign)] == sign)
        return changed

    def _split(self, texts: list[str], threads: int) -> list[list[int]]:
        """The ids of each text, computed by so many threads, or with -1 on all cores."""
        if not texts:
            return []
        refuse_without_room(threads)
        if self.entries is None:
            return self._processor.encode(texts, num_threads=threads)
        rows = self._processor.encode(texts, out_type=str, num_threads=threads)
        return [[number for piece in row for number in self._numbers(piece)] for row in rows]

    def _numbers(self, piece: str) -> list[int]:
        """The ids of a piece; SentencePiece joins unknown words that follow each other."""
        number = self._ids.get(piece)
        if number is not None:
            return [number]
        return [UNK] * (piece.count(BLANK) if self._whole_words else 1)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without bos and eos, computed on all cores."""
        return self._split(list(texts), -1)

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """The ids of `encode`, concatenated [tokens], and the number of ids of each text [N], computed on one core.

        For many calls: the ids of a word are cached if they cannot depend on other words.
        """
        if self._words_alone and not any(BLANK in text for text in texts):
            lines = [text.split(" ") for text in texts]
            unseen = set().union(*lines).difference(self._words)
            # Caching does not pay for text without blanks between words.
            if 2 * sum(map(len, unseen)) < sum(map(len, texts)):
                return self._encode_words(lines, unseen)
        return flat(self._split(list(texts), 1))

    def _encode_words(self, lines: list[list[str]], unseen: set[str]) -> Flat:
        """Ids and lengths as in `encode_flat`, of lines split into words, some of which are not cached yet."""
        if self._remembered > REMEMBERED:
            unseen = unseen.union(*lines)
            self._words.clear()
            self._remembered = 0
        self._remembered += sum(map(len, unseen))
        words = list(unseen)
        encoded = self._split(words, 1)
        self._words.update((word, array("i", ids).tobytes()) for word, ids in zip(words, encoded, strict=True))
        rows = [b"".join([self._words[word] for word in line]) for line in lines]
        ids = np.frombuffer(b"".join(rows), np.intc).astype(np.int32, copy=False)
        return ids, np.fromiter(map(len, rows), np.int64, len(rows)) // ids.itemsize

    @cached_property
    def _words_alone(self) -> bool:
        """Whether the ids of a text are the concatenated ids of its words, as in BPE without pieces across blanks.

        Not in unigram, where the best segmentation of a text may differ by rounding. BPE's scores are merge ranks.
        """
        message = self.message
        unranked = (message.SentencePiece.BYTE, message.SentencePiece.USER_DEFINED)  # which come first
        first = next(
            (n for n in range(SPECIALS, len(message.pieces)) if message.pieces[n].type not in unranked), SPECIALS
        )
        ranked = all(self._processor.get_score(n) == first - n for n in range(first, len(self._processor)))
        across = any(BLANK in piece[1:] for piece in self._own_pieces)
        return ranked and not across and self._processor.piece_to_id(BLANK) != self._processor.unk_id()

    @property
    def message(self) -> Any:
        """The model as SentencePiece's message `ModelProto`, a copy."""
        from sentencepiece import sentencepiece_model_pb2

        proto: Any = sentencepiece_model_pb2  # its classes are made when it is imported
        return proto.ModelProto.FromString(self.model)

    def normalised(self, text: str) -> str:
        """The text as it is split, with SentencePiece's symbol for a blank."""
        return str(self._processor.normalize(text))

    def lacks(self, character: str) -> bool:
        """Whether a character is outside the vocabulary."""
        return bool(self._processor.piece_to_id(character) == self._processor.unk_id()) and character != _RESERVED

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The pieces of each text in SentencePiece's form; unknown pieces as their own characters."""
        refuse_without_room(-1)
        return self._processor.encode(list(texts), out_type=str, num_threads=-1) if texts else []

    def unknown(self, text: str) -> list[str]:
        """The parts of a text that the vocabulary lacks, in order: runs of characters, or words in a model of words."""
        [pieces] = self.split([text])
        known = self._ids if self.entries is not None else None
        lacking = (
            piece
            for piece in pieces
            if (self._processor.piece_to_id(piece) == self._processor.unk_id() if known is None else piece not in known)
        )
        return [part for piece in lacking for part in piece.split(BLANK) if part]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, on one line; pad, bos and eos are omitted, unk is ` ⁇ `."""
        if self.entries is None:
            refuse_without_room(-1)
            texts = self._processor.decode([list(row) for row in rows], num_threads=-1) if rows else []
        else:
            unknown, silent = self._processor.id_to_piece(self._processor.unk_id()), (PAD, BOS, EOS)
            texts = [
                self._processor.decode(
                    [unknown if index == UNK else self.entries[index] for index in row if index not in silent]
                )
                .replace(BLANK, " ")
                .strip(" ")
                for row in rows
            ]
        return [BREAKS.sub(" ", text) for text in texts]

    def save(self, path: Path) -> None:
        """Write the SentencePiece model file and, if there is one, the vocabulary beside it."""
        path.write_bytes(self.model)
        if self.entries is not None:
            text = json.dumps(self.entries, ensure_ascii=False, indent=0) + "\n"
            vocabulary_file(path).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: Path) -> Subwords:
        """Read a SentencePiece model file, with the vocabulary beside it if there is one.

        Raises:
            UserError: a file is missing or is not what it should be.
        """
        model, beside = existing_file(path, "subword model").read_bytes(), vocabulary_file(path)
        entries = load_json(beside, list[str], "vocabulary", AGAIN) if beside.exists() else None
        if entries is not None and len(entries) < SPECIALS:
            raise UserError("not a vocabulary: it has no special symbols", beside, AGAIN)
        subwords: Subwords | None
        try:
            subwords = cls(model, entries)
        except RuntimeError:
            subwords = None
        if subwords is None or len(subwords._processor) == 0:  # an empty file loads, as a model without entries
            raise UserError("not a SentencePiece model", path, AGAIN)
        if (longest := subwords.longest) > LONGEST:
            what = f"the SentencePiece model has a piece or a replacement of {longest:,} bytes, more than {LONGEST:,}"
            raise UserError(what, path, AGAIN)
        return subwords

    @property
    def longest(self) -> int:
        """The bytes of the longest piece, or of the longest text that stands for some characters once normalised."""
        message = self.message
        texts = [piece.piece.encode() for piece in message.pieces]
        for spec in (message.normalizer_spec, message.denormalizer_spec):
            table: bytes = spec.precompiled_charsmap  # the length of a tree, the tree, and texts that end in a zero
            texts += table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
        return max(map(len, texts))

    @classmethod
    def learn(cls, sentences: Iterable[str], settings: Subword, role: str, marks: Sequence[str] = ()) -> Subwords:
        """Learn a model of `settings.vocabulary` + 4 entries, and one more for each mark.

        Args:
            sentences: the sample.
            settings: the `subword` section.
            role: for messages: `source`, `target` or `shared`.
            marks: words that are never divided.

        Raises:
            UserError: the sample does not support a vocabulary of that size; the message names the supported size.
        """
        import sentencepiece

        model = io.BytesIO()
        own: dict[str, Any] = {"user_defined_symbols": list(marks)} if marks else {}
        try:
            with TemporaryDirectory() as folder:
                train = partial(
                    sentencepiece.SentencePieceTrainer.train,
                    sentence_iterator=(_MARK.sub("< ", sentence.replace(_RESERVED, " ")) for sentence in sentences),
                    model_writer=model,
                    byte_fallback=settings.byte_fallback,
                    model_type=settings.type,
                    vocab_size=settings.vocabulary + SPECIALS + len(marks),
                    **own,
                    character_coverage=settings.character_coverage,
                    **_rule(settings.normalisation, Path(folder)),
                    pad_id=PAD,
                    unk_id=UNK,
                    bos_id=BOS,
                    eos_id=EOS,
                    max_sentence_length=2**30,  # bytes; SentencePiece silently skips longer lines
                    num_threads=THREADS,
                    minloglevel=2,
                )
                refuse_without_room(THREADS)
                waited_for(f"learning {role} subwords", train)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise _vocabulary_fault(str(error), settings, role, SPECIALS + len(marks)) from None
        learned = cls(model.getvalue())
        if settings.normalisation != "identity":
            return learned
        message = learned.message
        message.normalizer_spec.name = settings.normalisation
        message.normalizer_spec.normalization_rule_tsv = ""  # the path of a file that is gone
        return cls(message.SerializeToString())


def _rule(normalisation: str, folder: Path) -> dict[str, Any]:
    """SentencePiece's options for a rule of normalisation, which may need a file in `folder`.

    SentencePiece's own `identity` keeps control characters, such as tabs and line ends.
    """
    if normalisation != "identity":
        return {"normalization_rule_name": normalisation}
    rows = (f"{code:X}\t{' '.join(f'{ord(sign):X}' for sign in form)}\n" for code, form in CONTROLS.items())
    path = folder / "identity.tsv"
    path.write_text("".join(rows), encoding="utf-8")
    return {"normalization_rule_tsv": str(path)}


def flat(rows: Sequence[Sequence[int]]) -> Flat:
    """Join rows of ids into one array; return it with the length of each row."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths


def vocabulary_file(model: Path) -> Path:
    """The file beside a SentencePiece model for a vocabulary that is not that of the model."""
    return model.with_suffix(".vocabulary.json")


class VocabularyTooLarge(UserError):
    """The training text supports only `largest` subwords."""

    def __init__(self, settings: Subword, role: str, largest: int) -> None:
        what = (
            f"subword.vocabulary: {settings.vocabulary} is too large for the {role} training text, which supports at "
            f"most {largest} {settings.type} subwords"
        )
        super().__init__(what, "subword.vocabulary", f"set it to {largest} or less")
        self.largest = largest


def _vocabulary_fault(message: str, settings: Subword, role: str, uncounted: int) -> UserError:
    """SentencePiece's error in terms of the configuration, which does not count special symbols and marks."""
    if match := re.search(r"too high .*<= (\d+)", message):
        return VocabularyTooLarge(settings, role, int(match[1]) - uncounted)
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        smallest = int(match[1]) - uncounted
        return UserError(
            f"subword.vocabulary: {settings.vocabulary} is too small for the {role} training text, whose characters "
            f"alone need {smallest} subwords",
            "subword.vocabulary",
            f"set it to {smallest} or more, or lower subword.character_coverage",
        )
    return UserError(
        f"no subwords can be learned from the {role} training text: {message}",
        "subword",
        "check that the text contains visible characters",
    )
