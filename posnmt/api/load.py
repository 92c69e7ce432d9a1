"""`posnmt.load`: trained models for use in Python.

Shapes: J source subwords with `</s>`, d model width.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import torch

from posnmt.api.arguments import beside, plain, positive, torch_device, typed
from posnmt.api.options import LoadOptions, SearchOptions
from posnmt.api.values import Encoding, Hypothesis, TranslationWarning, hypotheses_of
from posnmt.base.errors import UserError, refuse_unknown
from posnmt.config.schema import Decode
from posnmt.data.corpus import document_of
from posnmt.data.lines import checked_lines, listed, portions
from posnmt.data.marks import lacks_mark, mark_for
from posnmt.run.run import CHECKPOINTS, Run
from posnmt.translate.attention import offset_bias
from posnmt.translate.options import with_options
from posnmt.translate.requests import Request, Search, numbered
from posnmt.translate.several import why_in_parts
from posnmt.translate.terms import Terms
from posnmt.translate.together import in_blocks
from posnmt.translate.translations import Translation, losses
from posnmt.translate.translator import Translator
from posnmt.translate.values import Attentions, DistanceBias, Positions


@typed
def load(
    runs: str | Path | Run | Sequence[str | Path | Run],
    *,
    checkpoint: Literal["model", "best", "average", "last"] = "model",
    interpolate: float | None = None,
    device: str | None = None,
    to: str | None = None,
    allow_plugins: bool = False,
    **options: Unpack[LoadOptions],
) -> TrainedModel:
    """A trained model, or several as an ensemble.

    Args:
        runs: the folder of a run, or what `posnmt.train` returned; a list of them is an ensemble, which predicts by the
            mean of the models' probabilities.
        checkpoint: `model` (what training chose), `best`, `average` or `last`.
        interpolate: divide positions by this factor, for texts that much longer than the training texts.
        device: of PyTorch, such as `cpu` or `cuda:1`; default: a GPU if there is one.
        to: the target language, of a model for several: its mark is put before each line.
        allow_plugins: import the classes that a run's config names by `module:Class`; only for runs that you trust.
        options: settings of search that a model is loaded with, by name: those of `posnmt.LoadOptions`; each default is
            that of the run's config. Scores, encoder states and attention are always computed in fp32.

    Raises:
        UserError: no run folder, no such checkpoint, runs with different vocabularies, a change that does not apply to
            the positions of a model, or a language whose mark the training text lacks.
    """
    several = isinstance(runs, Iterable) and not isinstance(runs, str | Path | Run)
    given: list[Any] = list(runs) if several else [runs]  # type: ignore[arg-type]
    todo = "name a folder made by `posnmt train`"
    if not given:
        raise UserError("there is no run to load", None, todo)
    for run in given:
        if not isinstance(run, str | Path | Run):
            raise UserError(f"a run is a folder, or what posnmt.train returned; got {type(run).__name__}", "runs", todo)
    refuse_unknown(str(checkpoint), CHECKPOINTS, "checkpoint")
    if interpolate is not None and not interpolate > 0:
        raise UserError(f"positions are divided by a number above 0; got {interpolate!r}", "interpolate")
    opened = [run if isinstance(run, Run) else Run.open(run, allow_plugins) for run in given]
    settings = plain(options)
    changes = settings.get("positions")
    if interpolate is not None and isinstance(changes, dict | None):
        settings["positions"] = {**(changes or {}), "interpolate": interpolate}
    decode = with_options(opened[0].config.decode, settings)
    mark = "" if to is None else mark_for(str(to), opened[0].known_marks, "to")
    return TrainedModel(opened, decode, checkpoint, torch_device(device), mark)


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
        self._tags = () if mark else tuple(self.runs[0].marks)
        self._searching = self._translator(decode.precision, decode.cuda_graphs)
        self._exact = None if self._searching.narrow else self._searching

    def __repr__(self) -> str:
        return f"posnmt.load([{', '.join(repr(str(run.folder)) for run in self.runs)}])"

    @typed
    def translate(
        self,
        lines: Iterable[str],
        *,
        documents: Iterable[str | None] | None = None,
        prefixes: Iterable[str] | None = None,
        terms: Mapping[str, str] | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[str]:
        """The translation of each line, in order; that of an empty line is empty.

        The texts are those of `posnmt translate` with the same options. A `posnmt.TranslationWarning` counts the lines
        with characters that the vocabulary lacks, those whose translations have other placeholders, mark-up, addresses
        or paths, those that `as-trained` had translated a sentence at a time, those whose translations leave out
        sentences, or did so before they were mended, and those without the language tag of a multilingual model.

        Args:
            lines: one sentence each, of any length.
            documents: with `join`, the document id of each line, which ends at its first blank; None for a line that
                is translated alone. Lines of two documents are never together, nor are those before and behind an empty
                line.
            prefixes: the beginning of the translation of each line; None: all translations are free.
            terms: source term → target term; where a line has the first, its translation has the second, unless the
                vocabulary lacks its characters or the line is in parts.
            options: settings of search, by name: those of `posnmt.SearchOptions`; each default is that of the run's
                config.

        Raises:
            UserError: an option out of its range, something else than a line, or a line too long for a finite position
                table.
        """
        search = self._asked(options, terms, scored=False)
        translations = list(self._search(search, lines, prefixes, documents))
        sentences = losses(translations)
        count = sum(each.in_sentences for each in translations)
        if count and search.decode.split == "as-trained":
            why = why_in_parts(self._searching.several)
            sentences.append(f"{count:,} of {len(translations):,} lines {why}")
        if untagged := sum(lacks_mark(each.request.line, self._tags) for each in translations):
            what = f"{untagged:,} of {len(translations):,} lines begin with no language tag of the training text"
            sentences.append(f"{what}; choose the target language with `to` of `posnmt.load`")
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
        documents: Iterable[str | None] | None = None,
        prefixes: Iterable[str] | None = None,
        terms: Mapping[str, str] | None = None,
        alignments: bool = False,
        **options: Unpack[SearchOptions],
    ) -> list[list[Hypothesis]]:
        """The best translations of each line with their scores and subwords, best first; an empty line has none.

        Each text is listed once. Samples have the order in which they were drawn, and may repeat a text.

        They are those of `posnmt translate --format jsonl` with the same options.

        Args:
            nbest: hypotheses of each line, at most the beam or `mbr`; fewer where search finds fewer different texts.
            alignments: whether to link the words of each hypothesis to words of its line, by the attention of the last
                decoder layer (docs/terms.md); Transformers only.

        The other arguments and errors are those of `translate`.
        """
        search, target = self._asked(options, terms, nbest, aligned=alignments), self._searching.text.target
        return [hypotheses_of(each, target) for each in self._search(search, lines, prefixes, documents)]

    @typed
    def score(self, pairs: Iterable[tuple[str, str]], *, batch: int = 4096) -> list[float]:
        """The natural log-probability of each target given its source, `</s>` included, by a full forward pass.

        Args:
            pairs: (source, target).
            batch: most padded subwords of a batch.

        Raises:
            UserError: something else than a pair, or a line too long for a finite position table.
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
        return self._exactly().score_lines(sources, targets, positive(batch, "batch"))

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
        states = self._exactly().encode(checked_lines(lines, "lines"), positive(batch, "batch"), name="lines")
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
        most = None if length is None else positive(length, "length")
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
        bias = offset_bias(self._exactly().models[0], side, positive(length, "length"))
        if bias is None:
            return None
        return DistanceBias(np.arange(1 - length, length), bias.float().cpu().numpy())

    def _search(
        self,
        search: Search,
        lines: Iterable[str],
        prefixes: Iterable[str] | None,
        documents: Iterable[str | None] | None,
    ) -> Iterator[Translation]:
        """Translations, portion by portion as on the command line."""
        join = search.decode.join
        texts = checked_lines(lines, "lines")
        ids = [document_of(each) for each in beside(documents, "documents", texts, optional=True)]
        if join == 1 and ids:
            raise UserError("documents matter to lines that are translated together", "documents", "give `join`")
        requests = numbered(texts, "lines", 1, beside(prefixes, "prefixes", texts), ids)
        groups: Iterable[list[Request]] = portions(iter(requests))
        for group in in_blocks(groups, join) if join > 1 else groups:
            yield from self._searching.translate(group, search)

    def _asked(
        self,
        options: SearchOptions,
        terms: Mapping[str, str] | None,
        nbest: int = 1,
        scored: bool = True,
        aligned: bool = False,
    ) -> Search:
        """What is asked of the translations of a call; `scored` and `aligned` as in `Search`.

        Raises:
            UserError: an option out of its range, or more translations than search keeps.
        """
        decode = with_options(self._decode, plain(options))
        search = Search(decode, positive(nbest, "nbest"), scored, aligned)
        search.refuse_too_many()
        return replace(search, terms=None if terms is None else Terms.of_mapping(terms))

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
