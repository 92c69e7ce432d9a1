"""The texts of a comparison: training under a cap, and a test of sentences of trained lengths and of longer ones.

Legend: N training pairs, T test pairs.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError, raise_all
from posnmt.config.schema import Config
from posnmt.config.yaml import merge
from posnmt.data.corpus import Pair
from posnmt.data.store import Store
from posnmt.data.text import TextPipeline
from posnmt.run.defaults import Settings
from posnmt.study import held_out
from posnmt.training.choose import Written, for_preparing, prepared

Say = Callable[[str], None]
Lengths = NDArray[np.int64]
KEPT = 0.75
"""The share of training pairs of one sentence that a cap keeps at least, if none is named."""
SAMPLE = 10_000
"""Training pairs, evenly spaced, by whose lengths the cap is chosen."""
DEV, TEST = 500, 2000
"""Pairs that are held out of a large corpus."""
SIZES = ((1, 0.1), (2, 0.2), (4, 0.2))
"""Of tests that are tried until one has enough longer sentences: multiples of `TEST`, and the most of the corpus."""
FEWEST_LONGER = 100
"""Test sentences that must be longer: the likelihood of references decides nothing on fewer."""


@dataclass(frozen=True)
class Corpora:
    """What texts are made of.

    Attributes:
        pairs: the corpus.
        dev, test: pairs of their own; None: held out of the corpus.
        languages: codes of source and target; None: by the text.
        cap: longest training sentence, in subwords; None: chosen.
        settings: of the configuration.
    """

    pairs: Sequence[Pair]
    dev: Sequence[Pair] | None
    test: Sequence[Pair] | None
    languages: tuple[str | None, str | None]
    cap: int | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Texts:
    """The texts, and their lengths in subwords.

    Attributes:
        training, dev, test: pairs; dev has none that are longer than the cap.
        left_out: what was held out for the test, and is not in it.
        languages: codes.
        config: with the settings that the text needs.
        chosen: the settings of it that were chosen.
        cap: longest training sentence on either side.
        lengths: `[N, 2]` of the training pairs of at most the cap, source and target.
        dev_tokens: targets of dev.
        test_lengths: `[T, 2]`.
    """

    training: Sequence[Pair]
    dev: Sequence[Pair]
    test: Sequence[Pair]
    left_out: held_out.Usable
    languages: tuple[str, str]
    config: Config
    chosen: Settings
    cap: int
    lengths: Lengths
    dev_tokens: int
    test_lengths: Lengths

    @property
    def longest(self) -> int:
        """The longest source that is trained on."""
        return int(self.lengths[:, 0].max())

    @property
    def longer(self) -> int:
        """The test sentences that are longer."""
        return int((self.test_lengths[:, 0] > self.longest).sum())

    @property
    def bins(self) -> list[int]:
        """The first lengths of the bins of a curve: two of trained lengths and three of longer ones, by the test."""
        sources = self.test_lengths[:, 0]
        trained, longer = sources[sources <= self.longest], sources[sources > self.longest]
        ends = [*([np.median(trained)] if len(trained) else []), *np.quantile(longer, [1 / 3, 2 / 3])]
        return sorted({self.longest + 1, *(int(end) + 1 for end in ends)})

    @property
    def tokens(self) -> float:
        """The mean length of a training pair on its longer side, with the end symbol."""
        return float(self.lengths.max(axis=1).mean()) + 1

    def write(self, folder: Path) -> None:
        """Write all texts; the test with its documents."""
        folder.mkdir(parents=True, exist_ok=True)
        held_out.write(self.training, folder, "train", self.languages)
        held_out.write(self.dev, folder, "dev", self.languages)
        held_out.write(self.test, folder, "test", self.languages, documents=True)


def make(corpora: Corpora, say: Say) -> Texts:
    """The texts of a comparison. The test is larger where it would have too few longer sentences.

    Raises:
        UserError: the test has too few longer sentences even so; the text is faulty or too small.
    """
    for times, share in SIZES:
        texts = _made(corpora, min(times * TEST, int(share * len(corpora.pairs))), say)
        if texts.longer >= FEWEST_LONGER or corpora.test is not None:
            break
    if texts.longer < FEWEST_LONGER:
        several = texts.left_out.several
        out = f", once {several:,} lines of several sentences are left out" if several else ""
        what = (
            f"a comparison on longer sentences needs {FEWEST_LONGER}, and the test has {texts.longer:,} of more than "
            f"{texts.longest} subwords, the longest source of training{out}"
        )
        raise UserError(what, "--cap", "name a lower cap, a test with longer sentences (--test), or a larger corpus")
    return texts


def _made(corpora: Corpora, tested: int, say: Say) -> Texts:
    """The texts, with a test of so many pairs."""
    wanted = tested, max(1, min(DEV, len(corpora.pairs) // 20))
    test, dev, training = held_out.hold_out(
        corpora.pairs,
        *(count if given is None else 0 for count, given in zip(wanted, (corpora.test, corpora.dev), strict=True)),
    )
    dev, test = (held if given is None else list(given) for held, given in ((dev, corpora.dev), (test, corpora.test)))
    say(f"learning subwords from {len(training):,} pairs")
    with tempfile.TemporaryDirectory() as work:
        completed, store = _prepared(corpora, training, dev, Path(work))
        text, lengths = store.text, _lengths_of(store)
    config = completed.config
    languages = _languages(corpora, completed.chosen)
    cap = usual_cap(training, text, languages[0]) if corpora.cap is None else corpora.cap
    kept = lengths[lengths.max(axis=1) <= cap]
    if not len(kept):
        raise UserError(f"no pair has at most {cap} subwords on either side", "--cap", "name a higher cap")
    of_dev = encoded(text, dev)
    short = (of_dev.max(axis=1) <= cap) & (of_dev.min(axis=1) > 0)
    if not short.any():
        raise UserError(
            f"no dev pair has at most {cap} subwords on either side", "--cap", "name a higher cap, or --dev"
        )
    left_out = held_out.usable(test, training, languages[0])
    return Texts(
        training, [pair for pair, is_short in zip(dev, short, strict=True) if is_short], left_out.pairs, left_out,
        languages, config, completed.chosen, cap, kept, int(of_dev[short, 1].sum()),
        encoded(text, left_out.pairs),
    )  # fmt: skip


def _languages(corpora: Corpora, chosen: Settings) -> tuple[str, str]:
    """The language codes: those that are given, or those that the text shows.

    Raises:
        UserError: one is not known.
    """
    known = {
        side: code or chosen.get(f"data.{side}_language")
        for side, code in zip(("source", "target"), corpora.languages, strict=True)
    }
    raise_all([
        UserError(f"the language of the {side} is not known", f"--{side}-language", "name its code, such as en")
        for side, code in known.items() if code is None
    ])  # fmt: skip
    return str(known["source"]), str(known["target"])


def _prepared(corpora: Corpora, training: Sequence[Pair], dev: Sequence[Pair], work: Path) -> Any:
    """The settings for the text, and its store in a folder."""
    for name, pairs in (("train", training), ("dev", dev)):
        held_out.write(pairs, work, name, ("source", "target"))
    data: dict[str, Any] = {
        name: {side: str(work / f"{name}.{side}") for side in ("source", "target")} for name in ("train", "dev")
    }
    codes = zip(("source_language", "target_language"), corpora.languages, strict=True)
    data |= {"accept": ["empty", "crlf"], **{name: code for name, code in codes if code is not None}}
    written = Written.from_settings(merge({"data": data}, dict(corpora.settings)))
    return prepared(for_preparing(written), _unheard, out=work / "stores")


def _unheard(message: str) -> None:
    """Take a line of progress, and show it nowhere."""


def _lengths_of(store: Store) -> Lengths:
    """`[N, 2]` the lengths of the training pairs of a store."""
    split = store.split("train")
    return np.stack([split.source_lengths, split.target_lengths], axis=1).astype(np.int64)


def encoded(text: TextPipeline, pairs: Sequence[Pair]) -> Lengths:
    """`[P, 2]` the lengths of P pairs in subwords."""
    sides = (
        [len(row) for row in side.encode(lines)]
        for side, lines in (
            (text.source, [pair.source for pair in pairs]),
            (text.target, [pair.target for pair in pairs]),
        )
    )
    return np.array(list(zip(*sides, strict=True)), dtype=np.int64).reshape(-1, 2)


def usual_cap(training: Sequence[Pair], text: TextPipeline, language: str) -> int:
    """The smallest cap that keeps the share `KEPT` of the pairs of one sentence, by the longer side."""
    places = np.linspace(0, len(training) - 1, min(SAMPLE, len(training))).round().astype(int)
    single = held_out.usable([training[place] for place in places], [], language).pairs
    if not single:
        what = "no line of the corpus is one sentence, and lines of several say nothing of length"
        raise UserError(what, "SOURCE", "give a text with a sentence a line, or name a --cap and a --test")
    longer_sides = np.sort(encoded(text, single).max(axis=1))
    return int(longer_sides[math.ceil(KEPT * len(longer_sides)) - 1])
