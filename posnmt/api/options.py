"""Settings of search as arguments of Python, which docs/scripts/reference.py makes of `posnmt.config.schema.Decode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

# begin search options


class SearchOptions(TypedDict, total=False):
    """Settings of search that each translation takes.

    Attributes:
        beam: hypotheses kept; 1 is greedy search.
        length_penalty: a: hypotheses rank by log-probability / length^a.
        coverage_penalty: beta: lowers the scores of finished hypotheses whose attention leaves source subwords out, by
            beta x the sum over source subwords of -log(min(attention, 1)); Transformers only.
        max_ratio: longest output = max_ratio x source length + max_extra, in subwords.
        max_extra: see max_ratio; outputs that reach the limit are counted and reported.
        split: which lines are cut, translated in parts and joined again; as-trained: lines with more sentences than at
            least 25 % of the training lines contain, at the ends of sentences; sentences: every line of several
            sentences, one sentence at a time; auto: lines longer than the longest training sentence, at the ends of
            sentences, else of clauses; huge: only overlong lines, of more than 4,096 subwords and 8 times the longest
            training sentence; off: none; every value but off cuts overlong lines.
        complete: what happens to a line whose translation leaves out a sentence; warn: a warning lists the line; mend:
            posnmt translates the line again, one sentence at a time, and keeps and reports the new translation if it
            leaves out less; as-trained: mend, or warn with split off; off: nothing, and only empty translations are
            reported.
        min_length: shortest output in subwords, as far as max_ratio allows it.
        protect: text that translations copy unchanged from their lines; auto: placeholders such as {name} and %s,
            markup, addresses, paths, code in backquotes, words with characters that the vocabulary lacks, and lines
            without letters; a list of regular expressions: also the text that they match; off: nothing.
        allow_unk: whether translations may contain unknown characters, written as ⁇.
        join: number of consecutive lines that are translated together, each in the context of the others; at most
            train.context; an empty line ends a document; 1: each line alone.
        sampling: draw translations at random from the model's probabilities instead of searching for the most probable;
            a mapping with temperature, top_k, top_p, seed.
        mbr: number of candidates, from the beam or drawn at random, of which the one most similar to the others by chrF
            is taken; 0: take the most probable translation.
        batch: most padded source tokens x beam of a batch; affects speed only; null: 4,096, but on a GPU as many as its
            memory has MiB, from 4,096 to 65,536.
    """

    beam: int | None
    length_penalty: float | None
    coverage_penalty: float | None
    max_ratio: float | None
    max_extra: int | None
    split: Literal["as-trained", "sentences", "auto", "huge", "off"] | None
    complete: Literal["as-trained", "mend", "warn", "off"] | None
    min_length: int | None
    protect: Literal["auto", "off"] | list[str] | None
    allow_unk: bool | None
    join: int | None
    sampling: Mapping[str, Any] | None
    mbr: int | None
    batch: int | None


class LoadOptions(TypedDict, total=False):
    """Settings of search that a model is loaded with.

    Attributes:
        positions: changes of positions for long texts, in `translate` and `score`, not on dev; a mapping with
            interpolate, ntk, yarn, clip, group, temperature.
        precision: precision of matrix products in translation; auto: bf16 on a GPU that supports it, else fp32; fp32:
            on a GPU in TF32, which multiplies with 10 bits; bf16 is faster on hardware that supports it, and less
            exact.
        cuda_graphs: on a GPU, record the decoder's steps and replay them; Transformers only.
    """

    positions: Mapping[str, Any] | None
    precision: Literal["auto", "fp32", "bf16"] | None
    cuda_graphs: bool | None


# end search options
