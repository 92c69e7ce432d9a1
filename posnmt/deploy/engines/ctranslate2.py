"""Translation by CTranslate2, with posnmt's subwords, limits and definition of scores.

The limits of CTranslate2 are switched off; by default it cuts sources after 1,024 tokens and outputs after 256. A call
has one limit of the output's length, while posnmt has one for each sentence. So a sentence whose output exceeds its own
limit is searched again with that limit; nothing changes for the others.

Both programs mask `<pad>`, `<s>` and `<unk>` in search, but CTranslate2 masks them before the softmax. The probability
that label smoothing gives them, about 0.1 / V each, is then missing in the normaliser. So scores that are asked for are
computed again by a full forward pass.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from posnmt.base.cancel import can_be_cancelled, check_cancelled
from posnmt.base.parallel.cores import cores
from posnmt.base.parallel.native import abandon
from posnmt.config.schema import Decode
from posnmt.data.batch import even_limit
from posnmt.data.subword import BOS, EOS, PAD, UNK
from posnmt.data.text import TextPipeline
from posnmt.translate.bounds import output_limit
from posnmt.translate.device import BATCH, FEW
from posnmt.translate.engine import Engine
from posnmt.translate.requests import Part, Search
from posnmt.translate.search import Hypothesis

COMPUTE_TYPES = {"fp32": "float32", "int8": "int8"}
"""posnmt's name of a precision → CTranslate2's."""

NO_PENALTY = 1e-30
"""A length penalty of 0 makes CTranslate2 stop at the first hypothesis that ends best; length^1e-30 is 1 as well."""

POLL = 0.002
"""Seconds between two looks at whether a search has ended, where it can be cancelled."""


class CTranslate2Engine(Engine):
    """A CTranslate2 model of a posnmt run, on a GPU if CTranslate2 sees one.

    Args:
        folder: of the CTranslate2 model.
        text: the text pipeline of the run.
        longest: the longest source with its end symbol and the longest target with its begin symbol; None: no limit.
        precision: of the products, `fp32` or `int8`.
        trained, several: see `Engine`.

    Attributes:
        name, serves: see `Engine`.
    """

    who, instead = "CTranslate2 here", "leave it out, or translate the run with --engine torch"
    shorten = (
        "split the line (decode.split=auto), export with a larger --positions, or translate the run with --engine torch"
    )
    serves = frozenset(
        [
            *("beam", "length_penalty", "max_ratio", "max_extra", "max_source", "split", "complete", "protect"),
            *("allow_unk", "positions", "mbr", "batch", "precision", "nbest"),
        ]
    )

    def __init__(
        self,
        folder: Path,
        text: TextPipeline,
        longest: tuple[int | None, int | None] = (None, None),
        precision: str = "fp32",
        trained: int | None = None,
        several: Sequence[float] | None = None,
    ) -> None:
        import ctranslate2

        self.text, self.longest, self.trained, self.several = text, longest, trained, several
        self.name = f"CTranslate2 {ctranslate2.__version__}"
        self._source, self._target = text.source.subwords.pieces, text.target.subwords.pieces
        self._ids = {piece: number for number, piece in enumerate(self._target)}
        device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        self._workers = cores() if device == "cpu" else 1
        threads = {"inter_threads": self._workers, "intra_threads": 1} if device == "cpu" else {}
        before = torch.get_num_threads()
        self._translator = ctranslate2.Translator(
            str(folder), device=device, compute_type=COMPUTE_TYPES[precision], **threads
        )
        torch.set_num_threads(before)  # CTranslate2 sets the threads of its own products for PyTorch, too

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch: int = 4096
    ) -> list[float]:
        """Return the natural log-probability of each target given its source; see `Engine.score`."""
        return [sum(row) for row in self._score_tokens(sources, targets, batch)]

    def _score_tokens(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch: int
    ) -> list[list[float]]:
        """The log-probability of each token of each target, eos included."""
        if not sources:
            return []
        written = [[self._target[token] for token in row] for row in targets]
        results = self._translator.score_batch(
            self._pieces(sources), written, max_batch_size=batch, batch_type="tokens", max_input_length=0
        )
        return [list(result.log_probs) for result in results]

    def hypotheses(self, parts: Sequence[Part], search: Search) -> list[list[Hypothesis]]:
        """The hypotheses of each part, best first; a part without subwords has none.

        Without `scored`, subwords have no log-probabilities. Those of hypotheses are the ones that CTranslate2 searched
        by, and NaN from greedy search.
        """
        places = [place for place, part in enumerate(parts) if part.ids]
        found: list[list[Hypothesis]] = [[] for _ in parts]
        searched = self._hypotheses([parts[place].ids for place in places], search.decode, search.scored)
        for place, hypotheses in zip(places, searched, strict=True):
            found[place] = hypotheses
        return found

    def _hypotheses(self, sources: Sequence[Sequence[int]], decode: Decode, scored: bool) -> list[list[Hypothesis]]:
        limits = [output_limit(decode, len(source), self.longest[1]) for source in sources]
        rows = self._search(sources, [self._steps(limit) for limit in limits], decode)
        again = [
            number for number, limit in enumerate(limits) if max(map(len, rows[number]), default=0) >= max(limit, 1)
        ]
        if decode.beam > 1:
            searched = self._search([sources[n] for n in again], [max(limits[n], 1) for n in again], decode, 2)
            for number, row in zip(again, searched, strict=True):
                rows[number] = row
        for number in again:
            rows[number] = {tokens[: limits[number]]: total for tokens, total in rows[number].items()}
        unranked = set(range(len(sources)) if scored else again if decode.beam > 1 else [])
        pairs = [(number, tokens) for number in sorted(unranked) for tokens in rows[number]]
        scores = self._score_tokens(
            [sources[number] for number, _ in pairs], [list(tokens) for _, tokens in pairs], decode.batch or BATCH
        )
        probabilities = dict(zip(pairs, scores, strict=True))
        return [
            [_hypothesis(*each, probabilities.get((number, each[0])), limits[number], decode) for each in row.items()]
            for number, row in enumerate(rows)
        ]

    def _search(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], decode: Decode, patience: int = 1
    ) -> list[dict[tuple[int, ...], float]]:
        """The subwords of the hypotheses of each source, with their log-probabilities by CTranslate2's search.

        Args:
            limits: the number of steps of each search, with one for eos.
            patience: a search ends when it has `patience` times the beam of hypotheses. A search that is known to reach
                its limit needs 2, since every open hypothesis ends there in addition to those that have ended.
        """
        lengths, most = [len(source) for source in sources], max(1, (decode.batch or BATCH) // decode.beam)
        batch = even_limit(lengths, most, self._workers, max(1, FEW // decode.beam))
        groups = defaultdict(list)
        for number, limit in enumerate(limits):
            groups[limit].append(number)
        running = {
            number: result
            for limit, numbers in sorted(groups.items(), reverse=True)
            for number, result in zip(
                numbers, self._start([sources[n] for n in numbers], limit, decode, patience, batch), strict=True
            )
        }
        try:
            for result in running.values() if can_be_cancelled() else ():
                while not result.done():
                    check_cancelled()
                    time.sleep(POLL)
        except BaseException:
            abandon(lambda: all(result.done() for result in running.values()))
            raise
        results = [running[number].result() for number in range(len(sources))]
        return [
            {
                self._tokens(pieces): score * len(pieces) ** decode.length_penalty
                for pieces, score in zip(result.hypotheses, result.scores or [math.nan], strict=True)
            }
            for result in results
        ]

    def _steps(self, limit: int) -> int:
        """More steps than an output of this length needs: a power of two, so that there are few groups of sentences."""
        steps = 1 << limit.bit_length()
        return steps if self.longest[1] is None else min(steps, self.longest[1])

    def _start(
        self, sources: Sequence[Sequence[int]], limit: int, decode: Decode, patience: int, batch: int
    ) -> Sequence[Any]:
        """Searches that run in the background, one for each source."""
        running: Sequence[Any] = self._translator.translate_batch(
            self._pieces(sources),
            max_batch_size=batch,
            batch_type="tokens",
            asynchronous=True,
            beam_size=decode.beam,
            patience=patience,
            num_hypotheses=decode.beam * patience,
            length_penalty=decode.length_penalty or NO_PENALTY,
            return_scores=decode.beam > 1,  # greedy search is faster without
            suppress_sequences=[[self._target[n]] for n in ((PAD, BOS) if decode.allow_unk else (PAD, BOS, UNK))],
            return_end_token=True,  # so that lengths count it, as posnmt's do
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
        )
        return running

    def _pieces(self, rows: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[self._source[token] for token in row] for row in rows]

    def _tokens(self, pieces: Sequence[str]) -> tuple[int, ...]:
        """The subwords of an output, without eos."""
        tokens = [self._ids[piece] for piece in pieces]
        return tuple(tokens[:-1] if tokens[-1:] == [EOS] else tokens)


def _hypothesis(
    tokens: tuple[int, ...], total: float, log_probabilities: list[float] | None, limit: int, decode: Decode
) -> Hypothesis:
    """A hypothesis with its score.

    Args:
        total: its log-probability by CTranslate2's search.
        log_probabilities: of its tokens, eos included, which win over `total`; None: they were not computed.
    """
    if log_probabilities is not None:
        total = sum(log_probabilities)
    score = total / (len(tokens) + 1) ** decode.length_penalty
    return Hypothesis(list(tokens), total, score, len(tokens) < limit, (log_probabilities or [])[:-1])
