"""Translation from text to text, for `posnmt translate`, `posnmt score` and evaluation on dev.

Sentences are sorted by length inside a portion, translated in batches of similar length, and returned in their original
order; batching affects only the speed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode, Positions
from posnmt.data.batch import batches_by_length, pad
from posnmt.data.subword import EOS, UNK
from posnmt.model.at_inference import change_positions
from posnmt.translate.alignments import Aligned, align
from posnmt.translate.mending import mended
from posnmt.translate.omissions import Align, with_omissions
from posnmt.translate.options import EVERYTHING, refuse_unserved
from posnmt.translate.parts import Parts, in_parts, prefixed
from posnmt.translate.protect import Protected, protect
from posnmt.translate.search import Hypothesis
from posnmt.translate.several import as_trained, most_learned, most_together
from posnmt.translate.subwords import Wanted, score_subwords, translate_subwords
from posnmt.translate.terms import Terms, contains, continuing, ends_with, subwords_of
from posnmt.translate.together import Together, blocks, grouped
from posnmt.translate.translations import Translation, as_text
from posnmt.translate.watched import can_be_watched
from posnmt_position.processor import multiplies_bf16

if TYPE_CHECKING:
    from posnmt.data.text import TextPipeline
    from posnmt.model.base import TranslationModel
    from posnmt.run.run import Run
    from posnmt.translate.attention import Attended

EACH_ALONE = {"nbest", "sampling", "mbr", "prefix", "terms"}
"""What lines that are translated together cannot have."""


class Translator:
    """One trained model, or several as an ensemble, with their text pipeline.

    Args:
        precision: of the products, `fp32` or `bf16`; a CPU without bf16 instructions computes in fp32.
        cuda_graphs: whether to record and replay the steps of search.
        trained: subwords of the longest source sentence in training; None: not known.
        several: the shares of training sources with at least 1, 2, … sentences; None: not known.
        context: most sentences that were joined in training.

    Attributes:
        name, serves: see `posnmt.translate.command.Engine`.

    Raises:
        UserError: CUDA graphs without a GPU, or for a model other than a Transformer.
    """

    name = f"PyTorch {torch.__version__}"
    serves = frozenset(
        [
            *("beam", "length_penalty", "coverage_penalty", "max_ratio", "max_extra", "max_source", "min_length"),
            *("split", "complete", "protect", "allow_unk", "join", "positions", "sampling", "mbr"),
            *("batch", "precision", "cuda_graphs", "prefix", "terms", "alignments"),
        ]
    )

    def __init__(
        self,
        models: Sequence[TranslationModel],
        text: TextPipeline,
        device: torch.device | None = None,
        precision: str = "fp32",
        cuda_graphs: bool = False,
        trained: int | None = None,
        context: int = 1,
        several: Sequence[float] | None = None,
    ) -> None:
        self.trained, self.context, self.several = trained, context, several
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.models = [model.to(self.device).eval() for model in models]
        self.text = text
        self.emulated = precision == "bf16" and self.device.type == "cpu" and not multiplies_bf16()
        self.narrow = precision == "bf16" and not self.emulated
        if self.device.type == "cpu":
            self._pack()
        self.searched = self._graphed() if cuda_graphs else self.models
        self.workers = Workers.of(self.device)

    def _pack(self) -> None:
        """Pack the weights for this CPU."""
        from posnmt.model.packed import pack

        for model in self.models:
            if torch.backends.mkldnn.is_available() and model.output.weight.dtype == torch.float32:
                pack(model, torch.bfloat16 if self.narrow else torch.float32)

    def _graphed(self) -> list[TranslationModel]:
        """The models for search, with CUDA graphs."""
        from posnmt.model.transformer import Transformer
        from posnmt.translate.graphs import GraphedDecoder

        if self.device.type != "cuda":
            raise UserError(
                "CUDA graphs need a GPU, and PyTorch sees none here", "decode.cuda_graphs", "leave them out"
            )
        budget = torch.cuda.get_device_properties(self.device).total_memory / 4 / len(self.models)
        decoders: list[TranslationModel] = []
        for model in self.models:
            if not isinstance(model, Transformer):
                what = f"CUDA graphs are for Transformers only, and this model is {model.config.architecture}"
                raise UserError(what, "decode.cuda_graphs", "leave them out")
            decoders.append(GraphedDecoder(model, budget))
        return decoders

    @property
    def aligns(self) -> bool:
        """Whether the models have alignments."""
        return all(map(can_be_watched, self.models))

    @property
    def notes(self) -> list[str]:
        """Notes for the user on how the translation was computed."""
        failures = {getattr(model, "failure", None) for model in self.searched} - {None}
        notes = [f"recording CUDA graphs failed, so steps ran without them: {why}" for why in failures]
        if self.emulated:
            notes.append("this processor has no bf16 instructions, so the translation used fp32, which is faster here")
        return notes

    @classmethod
    def load(
        cls,
        runs: Sequence[Run],
        checkpoint: str = "model",
        positions: Positions | None = None,
        device: torch.device | None = None,
        precision: str = "fp32",
        cuda_graphs: bool = False,
    ) -> Translator:
        """The translator of one run, or the ensemble of several that share their vocabularies.

        Args:
            checkpoint: see `Run.weights`.
            positions: changes of positions; None: those of the first run's configuration.
            precision, cuda_graphs: see `Translator`.

        Raises:
            UserError: runs whose subword models differ, or a change that means nothing for a model's positions.
        """
        for run in runs[1:]:
            if run.text_hash() != runs[0].text_hash():
                raise UserError(
                    f"an ensemble needs one vocabulary, and these runs have different text/ folders: {runs[0].folder}",
                    run.folder,
                    "train them from one prepared store",
                )
        positions = runs[0].config.decode.positions if positions is None else positions
        models = [trained_model(run, checkpoint, positions) for run in runs]
        context = min(run.config.train.context or 1 for run in runs)
        trained, several = longest_trained(runs, positions), least_several(runs)
        return cls(models, runs[0].text(), device, precision, cuda_graphs, trained, context, several)

    def translate(
        self,
        lines: Sequence[str],
        decode: Decode,
        nbest: int = 1,
        first_line: int = 1,
        name: str = "input",
        scored: bool = True,
        prefixes: Sequence[str] = (),
        terms: Terms | None = None,
        aligned: bool = False,
        documents: Sequence[str | None] = (),
    ) -> list[Translation]:
        """Translate lines; one result for each, in order. Lines may be in parts (`decode.split`).

        With `decode.join`, consecutive lines are translated together; the first line begins such a group. What becomes
        of sentences that a translation leaves out is in `decode.complete`.

        Args:
            decode: beam, length penalty, limits, batch size; or how to sample.
            nbest: translations of each line, at most the beam or `decode.mbr`; samples are as many as wanted.
            first_line, name: origin of the lines, for errors; with the seed, a line's number determines its samples.
            scored: see `search`.
            prefixes: for each line the beginning of its translation; none: all are free.
            terms: of a glossary. A part of a line has those that its text asks for.
            aligned: whether to link the words of each hypothesis to those of its line.
            documents: the document of each line, which `decode.join` does not cross, None for a line without; none at
                all: a blank line alone ends a document.

        Raises:
            UserError: a setting that is not served; a line too long for a finite position table, or one in parts with a
                prefix; alignments by models that can have none; lines together by models that are not trained for it,
                or with what needs each alone.
        """
        refuse_unserved("PyTorch here", self.serves, decode)
        if decode.join > 1:
            asked = {"nbest": nbest > 1, "prefix": any(prefixes), "terms": terms}
            self._refuse_together(decode, [name for name, is_asked in asked.items() if is_asked])
        whole = prefixed(prefixes) if decode.split == "as-trained" else ()
        together, decode = most_together(decode, self.several), as_trained(decode)
        wanted = partial(
            self._translate, nbest=nbest, first_line=first_line, name=name, scored=scored, terms=terms, aligned=aligned
        )
        numbers = range(first_line, first_line + len(lines))
        translations = wanted(lines, numbers, decode, together, prefixes=prefixes, documents=documents, whole=whole)
        if decode.complete != "mend":
            return translations

        def again(places: Sequence[int], changed: Decode) -> list[Translation]:
            return wanted([lines[place] for place in places], [numbers[place] for place in places], changed, 1)

        return mended(lines, translations, self.text.source, decode, prefixes, again)

    def _translate(
        self,
        lines: Sequence[str],
        numbers: Sequence[int],
        decode: Decode,
        together: int,
        nbest: int,
        first_line: int,
        name: str,
        scored: bool,
        terms: Terms | None,
        aligned: bool,
        prefixes: Sequence[str] = (),
        documents: Sequence[str | None] = (),
        whole: Collection[int] = (),
    ) -> list[Translation]:
        """The translations of lines as `translate` has them, none of them mended.

        Args:
            numbers: of the lines, which determine samples.
            together: as of `in_parts`.
            whole: places of lines that are not translated in parts of so many sentences.
        """
        encoded = self.text.source.encode(list(lines))
        refuse_longer(encoded, decode.max_source, first_line, name)
        parts = in_parts(lines, encoded, self.text.source, decode, self.trained, together, whole)
        self._refuse_too_long(parts.longest, first_line, name, todo=SPLIT)
        protected = protect(parts, self.text.source, decode, prefixes, terms)
        parts = protected.parts
        beginnings = self.text.target.encode(list(prefixes))
        self._refuse_unknown(prefixes, beginnings, first_line)
        self._refuse_too_long(beginnings, first_line, "the prefixes", target=True)
        beginnings = parts.prefixes(beginnings, first_line, name)
        wanted = Wanted(parts.numbers(numbers), max(nbest, decode.mbr), beginnings)
        if terms is not None:
            wanted = self._with_terms(wanted, terms, protected.in_lines, prefixes)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.narrow):
            scored = scored or decode.mbr > 0
            if decode.join > 1:
                joined = self._together(parts, blocks(lines, documents, decode.join), decode, scored)
                translations = joined.marked(as_text(self.text, parts.flat, joined.hypotheses, decode, nbest))
            else:
                hypotheses = self._search(parts.flat, decode, scored, wanted)
                translations = as_text(self.text, parts.flat, hypotheses, decode, nbest)
            if aligned:
                translations = self._aligned(protected, translations, decode.batch)
            links = partial(self._links, protected, batch=decode.batch) if self.aligns else None
            translations = protected.restored(translations, self.text.target, links)
            signs = partial(self._scores, decode.batch), self._linking(decode), most_learned(self.several)
            translations = with_omissions(protected, translations, decode, self.text, *signs)
        return parts.joined(translations, decode)

    def _scores(
        self, batch: int, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Sequence[float]:
        return score_subwords(self.models, sources, targets, batch, self.device)

    def _linking(self, decode: Decode) -> Align | None:
        """What aligns translations to their sources; None: the models have no alignments."""

        def links(
            lines: Sequence[str], sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
        ) -> Sequence[Aligned]:
            tokens = [[each] for each in targets]
            return align(self.models, self.text.source, lines, sources, tokens, decode.batch)

        return links if self.aligns else None

    def _refuse_unknown(self, prefixes: Sequence[str], beginnings: Sequence[list[int]], first_line: int) -> None:
        """Check that translations can begin with their prefixes."""
        for line, (prefix, row) in enumerate(zip(prefixes, beginnings, strict=True), first_line):
            if UNK in row:
                lacks = self.text.target.subwords.lacks
                shown = ", ".join(repr(each) for each in dict.fromkeys(prefix) if not each.isspace() and lacks(each))
                what = f"a prefix has characters that the vocabulary lacks{shown and ': '}{shown}"
                raise UserError(what, f"the prefixes:{line}", "write it in others, or leave it empty")

    def _search(
        self, sources: Sequence[Sequence[int]], decode: Decode, scored: bool, wanted: Wanted
    ) -> list[list[Hypothesis]]:
        return translate_subwords(self.searched, sources, decode, self.device, self.workers, scored, wanted)

    def _together(self, parts: Parts, in_block: Sequence[range], decode: Decode, scored: bool) -> Together:
        """The hypotheses of parts, those of the lines of a block together."""
        longest = self._longest(target=False)
        groups = grouped(parts, in_block, None if longest is None else longest - 1)
        return groups.translate(
            lambda sources, breaks: self._search(sources, decode, scored, Wanted(breaks=breaks)), decode.length_penalty
        )

    def _refuse_together(self, decode: Decode, asked: Sequence[str]) -> None:
        """Check that lines can be translated together; `asked`: see `refuse_unserved`.

        Raises:
            UserError: they cannot.
        """
        if decode.join > self.context:
            known = f"joined at most {self.context} lines" if self.context > 1 else "joined none"
            todo = "leave it out, join fewer, or train with train.context"
            raise UserError(f"{decode.join} lines are to be translated together; training {known}", "decode.join", todo)
        who, todo = "lines that are translated together", "leave it out, or decode.join"
        refuse_unserved(who, EVERYTHING - EACH_ALONE, decode, asked, todo)

    def _aligned(self, protected: Protected, translations: Sequence[Translation], batch: int) -> list[Translation]:
        """The translations of parts with the links of their hypotheses."""
        links = self._links(protected, range(len(translations)), translations, batch)
        return [replace(each, aligned=linked) for each, linked in zip(translations, links, strict=True)]

    def _links(
        self, protected: Protected, places: Sequence[int], translations: Sequence[Translation], batch: int
    ) -> list[Aligned]:
        """The links of the hypotheses of some parts, given by their places."""
        texts, rows = protected.lines, protected.parts.flat
        tokens = [[each.tokens for each in translation.hypotheses] for translation in translations]
        lines, sources = [texts[place] for place in places], [rows[place] for place in places]
        return align(self.models, self.text.source, lines, sources, tokens, batch)

    def _with_terms(
        self, wanted: Wanted, terms: Terms, texts: Sequence[Sequence[str]], prefixes: Sequence[str]
    ) -> Wanted:
        """What is wanted, with the terms of each part of each line, except those that stand in its prefix."""
        begun = prefixes or [""] * len(texts)
        of_parts = [(prefix, terms.wanted(part)) for parts, prefix in zip(texts, begun, strict=True) for part in parts]
        named = [[each for each in group if not contains(prefix, each)] for prefix, group in of_parts]
        closed = [any(ends_with(prefix, each) for each in group) for prefix, group in of_parts]
        subwords = subwords_of({each for group in named for each in group}, self.text.target)
        of_lines = [[subwords[each] for each in group if each in subwords] for group in named]
        return replace(wanted, terms=of_lines, closed=closed, continuing=continuing(self.text.target))

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        batch: int = 4096,
        first_line: int = 1,
        names: tuple[str, str] = ("source", "target"),
    ) -> list[float]:
        """Log-probability (natural, eos included) of each target given its source, by the full forward pass."""
        source_ids, target_ids = self.text.source.encode(list(sources)), self.text.target.encode(list(targets))
        self._refuse_too_long(source_ids, first_line, names[0])
        self._refuse_too_long(target_ids, first_line, names[1], target=True)
        return score_subwords(self.models, source_ids, target_ids, batch, self.device)

    @torch.inference_mode()
    def encode(
        self, lines: Sequence[str], batch: int = 4096, first_line: int = 1, name: str = "input"
    ) -> list[tuple[list[int], NDArray[np.float32]]]:
        """The subwords of each line, eos included, and the states [J,d] of the first model's encoder, in order.

        A line without subwords has neither.

        Args:
            batch: most padded source tokens of a batch.
            first_line, name: origin of the lines, for errors.

        Raises:
            UserError: a line too long for a finite position table.
        """
        encoded = self.text.source.encode(list(lines))
        self._refuse_too_long(encoded, first_line, name)
        model = self.models[0]
        nothing: NDArray[np.float32] = np.empty((0, model.config.d_model), np.float32)
        states: list[tuple[list[int], NDArray[np.float32]]] = [([], nothing) for _ in encoded]
        places = [number for number, ids in enumerate(encoded) if ids]
        for chosen in batches_by_length([len(encoded[number]) for number in places], batch):
            numbers = [places[number] for number in chosen]
            source, lengths = pad([encoded[number] for number in numbers], after=EOS)
            output = model.encode(source.to(self.device), lengths.to(self.device)).float().cpu().numpy()
            before = output.shape[1] - source.shape[1]  # states that are not those of a token
            for number, length, row in zip(numbers, lengths.tolist(), output, strict=True):
                states[number] = [*encoded[number], EOS], row[before : before + length].copy()
        return states

    def attend(self, source: str, target: str) -> tuple[list[int], list[int], Attended]:
        """The attention of the first model on one pair: the subwords of both sides, and `attend_pair` of them.

        Raises:
            UserError: the model is not a Transformer, or a line is too long for a finite position table.
        """
        from posnmt.translate.attention import attend_pair

        [source_ids], [target_ids] = self.text.source.encode([source]), self.text.target.encode([target])
        self._refuse_too_long([source_ids], 1, "source")
        self._refuse_too_long([target_ids], 1, "target", target=True)
        return source_ids, target_ids, attend_pair(self.models[0], source_ids, target_ids)

    def _refuse_too_long(
        self,
        encoded: Sequence[Sequence[int]],
        first_line: int,
        name: str,
        target: bool = False,
        todo: str = "shorten the line, or use a system without a finite table, such as relative",
    ) -> None:
        refuse_too_long(encoded, self._longest(target), first_line, name, todo)

    def _longest(self, target: bool) -> int | None:
        """Entries of the shortest position table of a side; None: no limit."""
        limits = [model.longest_target if target else model.longest_source for model in self.models]
        return min((limit for limit in limits if limit is not None), default=None)


def trained_model(run: Run, checkpoint: str, positions: Positions) -> TranslationModel:
    """The model of a run, with changes of its positions.

    Raises:
        UserError: a change that means nothing for the model's positions.
    """
    model, lengths = run.model(checkpoint), run.training_lengths
    of_source = len(model.source_tokens([]))  # symbols beside the subwords
    trained = (lengths["source"]["longest"] + of_source, lengths["target"]["longest"] + 1) if lengths else None
    change_positions(model, positions, trained, run.folder)
    return model


def longest_trained(runs: Sequence[Run], positions: Positions | None = None) -> int | None:
    """Subwords of the longest source sentence that all of some runs were trained on; None: not recorded.

    Args:
        positions: changes of positions at inference; those that are divided are as many times as many as in training.
    """
    recorded = [run.training_lengths for run in runs if (run.folder / "record.json").exists()]
    longest = [lengths["source"]["longest"] for lengths in recorded if "source" in lengths]
    factor = (positions and (positions.interpolate or positions.ntk or positions.yarn)) or 1.0
    return int(min(longest) * max(1.0, factor)) if longest else None


def least_several(runs: Sequence[Run]) -> list[float] | None:
    """The shares of training sources with at least 1, 2, … sentences, the least of some runs; None: one lacks them."""
    shares = [run.sentences_per_line.get("source") if (run.folder / "record.json").exists() else None for run in runs]
    known = [each for each in shares if each is not None]
    return [min(each) for each in zip(*known, strict=False)] if known and len(known) == len(shares) else None


SPLIT = (
    "shorten or split the line, translate it with decode.split=auto, or use a system without a finite table, such as"
    " relative"
)
"""What to do about a line to translate that is too long."""


def refuse_too_long(
    encoded: Sequence[Sequence[int]], longest: int | None, first_line: int, name: str, todo: str
) -> None:
    """Check that lines fit a finite position table.

    Args:
        encoded: the subwords of each line, without bos and eos.
        longest: entries of the table; None: no limit.
        first_line, name: origin of the lines.
        todo: what to do about a line that is too long.

    Raises:
        UserError: a line that does not fit with one more symbol.
    """
    if longest is not None:
        what = f"this model's position table ends at {longest - 1}"
        _refuse_above(encoded, longest - 1, first_line, name, what, todo)


def refuse_longer(encoded: Sequence[Sequence[int]], longest: int | None, first_line: int, name: str) -> None:
    """Check that no line has more subwords than the user allows; the arguments are those of `refuse_too_long`.

    Raises:
        UserError: a line has more.
    """
    if longest is not None:
        what = f"decode.max_source allows {longest:,}"
        _refuse_above(encoded, longest, first_line, name, what, "split the line, or raise decode.max_source")


def _refuse_above(
    encoded: Sequence[Sequence[int]], most: int, first_line: int, name: str, what: str, todo: str
) -> None:
    over = [number for number, ids in enumerate(encoded) if len(ids) > most]
    if over:
        more = f" (and {len(over) - 1:,} more such lines)" if len(over) > 1 else ""
        place = f"{name}:{first_line + over[0]}"
        raise UserError(f"{len(encoded[over[0]])} subwords, but {what}{more}", place, todo)
