"""`posnmt.load`: trained models for use in Python.

Shapes: J source subwords with `</s>`, d model width.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from posnmt.api.arguments import typed
from posnmt.api.values import Encoding, Hypothesis, TranslationWarning
from posnmt.base.errors import UserError, refuse_unknown
from posnmt.config.schema import Decode
from posnmt.data.corpus import document_of
from posnmt.data.lines import checked_lines, listed
from posnmt.data.marks import mark_for
from posnmt.data.portions import portions
from posnmt.data.text import SideText
from posnmt.run.run import Run
from posnmt.translate.attention import offset_bias
from posnmt.translate.options import with_options
from posnmt.translate.several import why_in_parts
from posnmt.translate.terms import Terms
from posnmt.translate.together import in_blocks
from posnmt.translate.translations import Translation, kept_badly, refuse_too_many
from posnmt.translate.translator import Translator
from posnmt.translate.values import Attentions, DistanceBias, Positions

CHECKPOINTS = ("model", "best", "average", "last")
"""The names of a run's checkpoints."""


@typed
def load(
    runs: str | Path | Run | Sequence[str | Path | Run],
    *,
    checkpoint: Literal["model", "best", "average", "last"] = "model",
    interpolate: float | None = None,
    positions: Mapping[str, Any] | None = None,
    precision: Literal["fp32", "bf16"] | None = None,
    cuda_graphs: bool | None = None,
    device: str | None = None,
    to: str | None = None,
    allow_plugins: bool = False,
) -> TrainedModel:
    """A trained model, or several as an ensemble.

    Args:
        runs: the folder of a run, or what `posnmt.train` returned; a list of them is an ensemble, which predicts by the
            mean of the models' probabilities.
        checkpoint: `model` (what training chose), `best`, `average` or `last`.
        interpolate: divide positions by this factor, for texts that much longer than the training texts.
        positions: changes of positions for long texts, as `decode.positions` has them: `{"clip": 16}`; default: as in
            the run's config.
        precision: of matrix products in translation; default: as in the run's config. Scores, encoder states and
            attention are always computed in fp32.
        cuda_graphs: on a GPU, record the decoder's steps and replay them; default: as in the run's config.
        device: of PyTorch, such as `cpu` or `cuda:1`; default: a GPU if there is one.
        to: the target language, of a model for several: its mark is put before each line.
        allow_plugins: import the classes that a run's config names by `module:Class`; only for runs that you trust.

    Raises:
        UserError: no run folder, no such checkpoint, runs with different vocabularies, or a change that means nothing
            for the positions of a model; or a language whose mark the training text lacks.
    """
    several = isinstance(runs, Iterable) and not isinstance(runs, str | Path | Run)
    wanted: list[Any] = list(runs) if several else [runs]  # type: ignore[arg-type]
    todo = "name a folder made by `posnmt train`"
    if not wanted:
        raise UserError("there is no run to load", None, todo)
    for run in wanted:
        if not isinstance(run, str | Path | Run):
            raise UserError(f"a run is a folder, or what posnmt.train returned; got {type(run).__name__}", "runs", todo)
    refuse_unknown(str(checkpoint), CHECKPOINTS, "checkpoint")
    if interpolate is not None and not interpolate > 0:
        raise UserError(f"positions are divided by a number above 0; got {interpolate!r}", "interpolate")
    opened = [run if isinstance(run, Run) else Run.open(run, allow_plugins) for run in wanted]
    changes = _mapping(positions)
    if interpolate is not None and isinstance(changes, dict | None):
        changes = {**(changes or {}), "interpolate": interpolate}
    settings = {
        "precision": precision,
        "cuda_graphs": cuda_graphs,
        "positions": changes,
    }
    decode = with_options(opened[0].config.decode, settings)
    mark = "" if to is None else mark_for(str(to), opened[0].marks, "to")
    return TrainedModel(opened, decode, checkpoint, _device(device), mark)


class TrainedModel:
    """A trained model or an ensemble of several, with the text pipeline that they share: made by `posnmt.load`.

    Lines are plain text, as in the files of the command line; the model tokenises them and cuts them into subwords.

    Attributes:
        runs: the runs of the models.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        decode: Decode,
        checkpoint: str = "model",
        device: torch.device | None = None,
        mark: str = "",
    ) -> None:
        self.runs = list(runs)
        self._decode, self._checkpoint, self._device, self._mark = decode, checkpoint, device, mark
        self._searching = self._translator(decode.precision, decode.cuda_graphs)
        self._exact = self._searching if decode.precision == "fp32" else None

    def __repr__(self) -> str:
        return f"posnmt.load([{', '.join(repr(str(run.folder)) for run in self.runs)}])"

    @typed
    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float | None = None,
        max_ratio: float | None = None,
        max_extra: int | None = None,
        min_length: int | None = None,
        sampling: Mapping[str, Any] | None = None,
        mbr: int | None = None,
        split: Literal["as-trained", "sentences", "auto", "huge", "off"] | None = None,
        complete: Literal["as-trained", "mend", "warn", "off"] | None = None,
        join: int | None = None,
        protect: Literal["auto", "off"] | list[str] | None = None,
        allow_unk: bool | None = None,
        documents: Iterable[str | None] | None = None,
        prefixes: Iterable[str] | None = None,
        terms: Mapping[str, str] | None = None,
        batch: int | None = None,
    ) -> list[str]:
        """The translation of each line, in order; that of an empty line is empty.

        The texts are those of `posnmt translate` with the same options. A `posnmt.TranslationWarning` counts the lines
        with characters that the vocabulary lacks, those whose translations have other placeholders, mark-up, addresses
        or paths, those that `as-trained` had translated a sentence at a time, and those whose translations leave out
        sentences, or did so before they were mended.

        Args:
            lines: one sentence each, of any length.
            beam: hypotheses kept; 1 is greedy search.
            length_penalty: a in log-probability / length^a, by which hypotheses are ranked.
            coverage_penalty: beta, which lowers the scores of translations whose attention leaves source subwords out.
            max_ratio, max_extra: the longest output in subwords is max_ratio x source length + max_extra.
            min_length: the shortest output in subwords.
            sampling: draw translations, with `temperature`, `top_k`, `top_p` and `seed` as `decode.sampling` has them.
            mbr: of so many translations take the one most similar to the others by chrF; 0: the most probable.
            split: which lines are translated in parts, cut at ends of sentences and clauses: `auto`, those longer than
                training sentences; `huge`, those of more than 4,096 subwords and 8 times as long; `sentences`, also
                those of several sentences, each alone; `as-trained`, as `sentences`, but as many at a time as at least
                25 % of the training lines had; `off`, none.
            complete: what is done where a translation leaves out a sentence of its line: `mend`, the line is translated
                again, a sentence at a time; `warn`, it is reported; `as-trained`, as `mend`, but as `warn` where
                `split` is `off`; `off`: nothing, unless it is empty.
            join: so many consecutive lines are translated together, each in the context of the others, by a model
                trained with `train.context`; 1: each alone.
            protect: what stands in translations as in their lines. `auto`: placeholders, mark-up, addresses, paths,
                code in back quotes, words with characters that the vocabulary lacks, and lines without letters. A
                list: also what these regular expressions match. `off`: nothing.
            allow_unk: whether translations may contain unknown characters, written as ` ⁇ `.
            documents: with `join` a document id for each line, which ends at its first blank, or None: a line without
                one is alone. Lines of two documents are never together, nor are those before and behind an empty line.
            prefixes: the beginning of the translation of each line; None: all are free.
            terms: source term → target term; where a line has the first, its translation has the second, unless the
                vocabulary lacks its characters or the line is in parts.
            batch: most padded source subwords x beam of a batch; affects speed only.

        Each default is that of the run's config.

        Raises:
            UserError: an option out of its range, a line that is none, or one too long for a finite position table.
        """
        options = _options(
            beam, length_penalty, coverage_penalty, max_ratio, max_extra, min_length, sampling, mbr, split,
            complete, join, protect, allow_unk, batch,
        )  # fmt: skip
        translations = list(self._search(lines, 1, options, prefixes, terms, documents, scored=False))
        sentences = kept_badly(translations)
        count = sum(each.in_sentences for each in translations)
        if count and (split or self._decode.split) == "as-trained":
            why = why_in_parts(self._searching.several)
            sentences.append(f"{count:,} of {len(translations):,} lines {why}")
        if sentences:
            todo = "`hypotheses` names them in `unknown`, `differing`, `omitted`, `mended` and `in_sentences`"
            warnings.warn(f"{'; '.join(sentences)}; {todo}", TranslationWarning, stacklevel=3)  # behind `typed`
        return [translation.text for translation in translations]

    @typed
    def hypotheses(
        self,
        lines: Iterable[str],
        nbest: int = 1,
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float | None = None,
        max_ratio: float | None = None,
        max_extra: int | None = None,
        min_length: int | None = None,
        sampling: Mapping[str, Any] | None = None,
        mbr: int | None = None,
        split: Literal["as-trained", "sentences", "auto", "huge", "off"] | None = None,
        complete: Literal["as-trained", "mend", "warn", "off"] | None = None,
        join: int | None = None,
        protect: Literal["auto", "off"] | list[str] | None = None,
        allow_unk: bool | None = None,
        documents: Iterable[str | None] | None = None,
        prefixes: Iterable[str] | None = None,
        terms: Mapping[str, str] | None = None,
        batch: int | None = None,
        alignments: bool = False,
    ) -> list[list[Hypothesis]]:
        """The best translations of each line with their scores and subwords, best first; an empty line has none.

        Each text is listed once. Samples have the order in which they were drawn, and may repeat a text.

        They are those of `posnmt translate --format jsonl` with the same options.

        Args:
            nbest: hypotheses of each line, at most the beam or `mbr`; fewer where search finds fewer different texts.
            alignments: whether to link the words of each hypothesis to words of its line, by the attention of the last
                decoder layer (docs/translate.md); Transformers only.

        The other arguments and errors are those of `translate`.
        """
        options = _options(
            beam, length_penalty, coverage_penalty, max_ratio, max_extra, min_length, sampling, mbr, split,
            complete, join, protect, allow_unk, batch,
        )  # fmt: skip
        searched = self._search(lines, nbest, options, prefixes, terms, documents, scored=True, aligned=alignments)
        return [_hypotheses(translation, self._searching.text.target) for translation in searched]

    @typed
    def score(self, pairs: Iterable[tuple[str, str]], *, batch: int = 4096) -> list[float]:
        """The natural log-probability of each target given its source, `</s>` included, by a full forward pass.

        Args:
            pairs: (source, target).
            batch: most padded subwords of a batch.

        Raises:
            UserError: a pair that is none, or a line too long for a finite position table.
        """
        given = listed(pairs, "pairs")
        wrong = [
            index
            for index, pair in enumerate(given)
            if isinstance(pair, str) or not isinstance(pair, Collection) or len(pair) != 2
        ]
        if wrong:
            raise UserError(
                "a pair is (source, target)", f"pairs[{wrong[0]}]", "for example list(zip(sources, targets))"
            )
        sources = checked_lines([source for source, _ in given], "sources")
        targets = checked_lines([target for _, target in given], "targets")
        return self._exactly().score(sources, targets, _positive(batch, "batch"))

    @typed
    def encode(self, lines: Iterable[str], *, batch: int = 4096) -> list[Encoding]:
        """The encoder's states [J,d] of each line with its subwords, in order; an empty line has J = 0.

        Args:
            batch: most padded source subwords of a batch.

        Raises:
            UserError: an ensemble, or a line too long for a finite position table.
        """
        self._refuse_ensemble("encoder states")
        pieces = self._exactly().text.source.subwords.pieces
        states = self._exactly().encode(checked_lines(lines, "lines"), _positive(batch, "batch"), name="lines")
        return [Encoding([pieces[token] for token in ids], output) for ids, output in states]

    @typed
    def attention(self, source: str, target: str | None = None) -> Attentions:
        """The attention of each layer and head on one pair of lines, with what positions add to the logits.

        Args:
            source, target: one line each; without a target, the model's own translation.

        Raises:
            UserError: an ensemble, a model that is not a Transformer, or a line too long for a finite position table.
        """
        from posnmt.evaluation.show.collect import attentions

        self._refuse_ensemble("attention")
        [source] = checked_lines([source], "source")
        [target] = self.translate([source]) if target is None else checked_lines([target], "target")
        return attentions(self._exactly(), source, target)

    @typed
    def positions(
        self, sources: Iterable[str], targets: Iterable[str] | None = None, *, length: int | None = None
    ) -> Positions:
        """What the position parts of both stacks do, by distance and by position, as `posnmt show` draws it.

        What a model does not have is None: a model without recurrences has no `moved`, one that is not a Transformer
        no `attention`.

        Args:
            sources, targets: lines that means are over; empty ones do not count. Without targets, the model's own
                translations.
            length: positions of `similarity`, and one more than the largest distance of `bias`; default: twice the
                tokens of the longest training sentence, at least 32 and at most 256.

        Raises:
            UserError: an ensemble, no line that is not empty, different numbers of lines, or a line too long for a
                finite position table.
        """
        from posnmt.evaluation.show.collect import collect, refuse_unpaired

        self._refuse_ensemble("positions")
        read = checked_lines(sources, "sources")
        written = self.translate(read) if targets is None else checked_lines(targets, "targets")
        refuse_unpaired(read, written, "sources", "targets")
        most = None if length is None else _positive(length, "length")
        return collect(self._exactly(), self.runs[0], read, written, most)

    @typed
    def distance_bias(
        self, length: int = 50, *, side: Literal["encoder", "decoder"] = "encoder"
    ) -> DistanceBias | None:
        """What the schemes of a side add to the logits at each distance, whatever the words: ALiBi's, T5's and others.

        None where no scheme has such a bias; `attention(…).encoder.by_distance()` measures what a scheme adds that
        depends on the words, such as relative vectors or a rotation.

        Args:
            length: the largest distance is length - 1, to either side.
            side: in the decoder, keys to the right are hidden, so that positive distances are of no use there.

        Raises:
            UserError: an ensemble, or a model that is not a Transformer.
        """
        self._refuse_ensemble("biases")
        refuse_unknown(str(side), ("encoder", "decoder"), "side")
        bias = offset_bias(self._exactly().models[0], side, _positive(length, "length"))
        if bias is None:
            return None
        return DistanceBias(np.arange(1 - length, length), bias.float().cpu().numpy())

    def _search(
        self,
        lines: Iterable[str],
        nbest: int,
        options: dict[str, Any],
        prefixes: Iterable[str] | None,
        terms: Mapping[str, str] | None,
        documents: Iterable[str | None] | None,
        scored: bool,
        aligned: bool = False,
    ) -> Iterator[Translation]:
        """Translations, portion by portion as on the command line."""
        decode = with_options(self._decode, options)
        refuse_too_many(_positive(nbest, "nbest"), decode)
        texts = checked_lines(lines, "lines")
        beginnings = _beside(prefixes, "prefixes", texts)
        ids = [document_of(each) for each in _beside(documents, "documents", texts, optional=True)]
        glossary = None if terms is None else Terms.of_mapping(terms)
        if decode.join == 1 and ids:
            raise UserError("documents matter to lines that are translated together", "documents", "give `join`")
        groups: Iterable[list[str]] = portions(iter(texts))
        if decode.join > 1:
            groups = in_blocks(groups, ids, decode.join)
        first = 0
        for group in groups:
            given, of_group = beginnings[first : first + len(group)], ids[first : first + len(group)]
            yield from self._searching.translate(
                group, decode, nbest, first + 1, "lines", scored, given, glossary, aligned, of_group
            )
            first += len(group)

    def _translator(self, precision: str, cuda_graphs: bool = False) -> Translator:
        translator = Translator.load(
            self.runs, self._checkpoint, self._decode.positions, self._device, precision, cuda_graphs
        )
        translator.text = translator.text.marked(self._mark)
        return translator

    def _exactly(self) -> Translator:
        """The models in fp32; loaded once more where search computes in bf16."""
        if self._exact is None:
            self._exact = self._translator("fp32")
        return self._exact

    def _refuse_ensemble(self, what: str) -> None:
        if len(self.runs) > 1:
            raise UserError(f"{what} are those of one model, and this is an ensemble", None, "load one run")


def _hypotheses(translation: Translation, target: SideText) -> list[Hypothesis]:
    """The hypotheses of a line; `target` is the text pipeline of translations."""
    pieces, aligned = target.subwords.pieces, translation.aligned
    hypotheses = []
    for place, (text, each, again) in enumerate(
        zip(translation.texts, translation.hypotheses, translation.repetitive, strict=False)
    ):
        in_order = translation.words(place, target)
        hypotheses.append(
            Hypothesis(
                text,
                each.log_probability,
                each.score,
                each.ended,
                again,
                [pieces[token] for token in each.tokens],
                in_order,
                translation.parts,
                list(translation.unknown),
                list(translation.protected),
                list(translation.differing),
                translation.in_sentences,
                list(translation.omitted),
                translation.mended,
                aligned.words if aligned else [],
                aligned.links(place, in_order) if aligned else [],
            )
        )
    return hypotheses


def _beside(values: Iterable[str | None] | None, name: str, lines: Sequence[str], optional: bool = False) -> list[str]:
    """What is given for each of some lines; none: nothing is.

    Args:
        name, optional: as of `checked_lines`.

    Raises:
        UserError: another number.
    """
    if values is None:
        return []
    beside = checked_lines(values, name, optional)
    if len(beside) != len(lines):
        raise UserError(f"{len(lines):,} lines have {len(beside):,} {name}", name, "give one for each line")
    return beside


def _options(
    beam: int | None,
    length_penalty: float | None,
    coverage_penalty: float | None,
    max_ratio: float | None,
    max_extra: int | None,
    min_length: int | None,
    sampling: Mapping[str, Any] | None,
    mbr: int | None,
    split: str | None,
    complete: str | None,
    join: int | None,
    protect: str | list[str] | None,
    allow_unk: bool | None,
    batch: int | None,
) -> dict[str, Any]:
    return {
        "beam": beam,
        "length_penalty": length_penalty,
        "coverage_penalty": coverage_penalty,
        "max_ratio": max_ratio,
        "max_extra": max_extra,
        "min_length": min_length,
        "sampling": _mapping(sampling),
        "mbr": mbr,
        "split": split,
        "complete": complete,
        "join": join,
        "protect": protect,
        "allow_unk": allow_unk,
        "batch": batch,
    }


def _mapping(values: Mapping[str, Any] | None) -> Any:
    """Settings as a dictionary; what is no mapping is left to the check of settings."""
    return dict(values) if isinstance(values, Mapping) else values


def _positive(number: int, name: str) -> int:
    """A number that is at least 1; `name` is that of the argument."""
    if number < 1:
        raise UserError(f"a whole number of 1 or more is needed; got {number}", name)
    return number


def _device(name: str | None) -> torch.device | None:
    """A device of PyTorch by its name.

    Raises:
        UserError: PyTorch has no such device here, or it is Apple's MPS.
    """
    if name is None:
        return None
    todo = "leave it out, or name cpu"
    try:
        if torch.device(name).type == "mps":
            raise UserError("MPS has no float64, in which positions are computed", "device", todo)
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        what = str(error).partition("\n")[0]
        raise UserError(f"PyTorch has no device {name!r} here: {what}", "device", todo) from None
