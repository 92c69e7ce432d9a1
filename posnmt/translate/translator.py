"""Translation from text to text by PyTorch, for `posnmt translate`, `posnmt score` and evaluation on dev.

Sentences are sorted by length inside a portion, translated in batches of similar length, and returned in their original
order; batching affects only the speed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Positions
from posnmt.data.batch import batches_by_length, pad
from posnmt.data.subword import EOS
from posnmt.run.run import Run
from posnmt.translate.alignments import Aligned, align
from posnmt.translate.device import in_bf16, in_fp32, in_tf32, usual_device
from posnmt.translate.engine import Engine
from posnmt.translate.engines import ModelChoice
from posnmt.translate.limits import SHORTEN, refuse_too_long
from posnmt.translate.options import with_options
from posnmt.translate.runs import fingerprint, least_several, longest_trained, trained_model
from posnmt.translate.subwords import Searcher, score_subwords
from posnmt.translate.terms import continuing
from posnmt.translate.watched import can_be_watched

if TYPE_CHECKING:
    from posnmt.data.text import SideText, TextPipeline
    from posnmt.model.base import TranslationModel
    from posnmt.translate.attention import Attended


class Translator(Engine):
    """One trained model, or several as an ensemble, with their text pipeline.

    Args:
        precision: of the products, as `decode.precision`; hardware without bf16 computes in fp32.
        cuda_graphs: whether to record and replay the steps of search.
        trained, context, several: see `Engine`.

    Raises:
        UserError: CUDA graphs without a GPU, or for a model other than a Transformer.
    """

    name = f"PyTorch {torch.__version__}"
    who, instead = "PyTorch here", "leave it out"
    shorten = (
        "shorten or split the line, translate it with decode.split=auto, or use a system without a finite table, such"
        " as relative"
    )
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
        self.device = device or usual_device()
        self.models = [model.to(self.device).eval() for model in models]
        self.text = text
        self.narrow = in_bf16(precision, self.device)
        self.precision = "bf16" if self.narrow else "tf32" if self.device.type == "cuda" else "fp32"
        self.lacks_bf16 = precision == "bf16" and not self.narrow
        if self.device.type == "cpu":
            self._pack()
        self.searched = self._graphed() if cuda_graphs else self.models
        self.longest = _least(m.longest_source for m in models), _least(m.longest_target for m in models)
        self.workers = Workers.of(self.device)
        behind = cache(lambda: continuing(text.target))
        self.hypotheses = Searcher(self.searched, self.device, self.workers, behind).hypotheses

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A context in which translations are computed: in bf16 or, in fp32 on a GPU, with products in TF32."""
        products = nullcontext() if self.narrow else in_tf32(self.device)
        with products, torch.autocast(self.device.type, torch.bfloat16, enabled=self.narrow):
            yield

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
        """Whether every model has attention from which word links can be read."""
        return all(map(can_be_watched, self.models))

    @property
    def notes(self) -> list[str]:
        """Notes for the user on how the translation was computed."""
        failures = {getattr(model, "failure", None) for model in self.searched} - {None}
        notes = [f"recording CUDA graphs failed, so steps ran without them: {why}" for why in failures]
        if self.lacks_bf16:
            kind = "GPU" if self.device.type == "cuda" else "processor"
            notes.append(f"this {kind} has no bf16 instructions, so the translation used fp32, which is faster here")
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
            UserError: runs whose subword models differ, or a change that does not apply to a model's positions.
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

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch: int = 4096
    ) -> list[float]:
        """Return the log-probability of each target given its source; see `Engine.score`."""
        return score_subwords(self.models, sources, targets, batch, self.device)

    def links(
        self,
        lines: Sequence[str],
        sources: Sequence[Sequence[int]],
        hypotheses: Sequence[Sequence[Sequence[int]]],
        batch: int,
    ) -> list[Aligned]:
        """Link the words of lines and hypotheses by attention; see `Engine.links`."""
        return align(self.models, self.text.source, lines, sources, hypotheses, batch)

    def score_lines(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        batch: int = 4096,
        names: tuple[str, str] = ("source", "target"),
    ) -> list[float]:
        """Log-probability (natural, eos included) of each target line given its source line.

        Args:
            batch: most padded subwords of a batch.
            names: of the texts, for error messages.

        Raises:
            UserError: a line too long for a finite position table.
        """
        return self.score(self._encoded(sources, names[0]), self._encoded(targets, names[1], target=True), batch)

    @torch.inference_mode()
    def encode(
        self, lines: Sequence[str], batch: int = 4096, name: str = "input"
    ) -> list[tuple[list[int], NDArray[np.float32]]]:
        """The subwords of each line, eos included, and the states [J,d] of the first model's encoder, in order.

        A line without subwords has neither.

        Args:
            batch: most padded source tokens of a batch.
            name: of the text, for error messages.

        Raises:
            UserError: a line too long for a finite position table.
        """
        encoded = self._encoded(lines, name)
        model = self.models[0]
        nothing: NDArray[np.float32] = np.empty((0, model.config.d_model), np.float32)
        states: list[tuple[list[int], NDArray[np.float32]]] = [([], nothing) for _ in encoded]
        places = [number for number, ids in enumerate(encoded) if ids]
        for chosen in batches_by_length([len(encoded[number]) for number in places], batch):
            numbers = [places[number] for number in chosen]
            source, lengths = pad([encoded[number] for number in numbers], after=EOS)
            with in_fp32(self.device):
                states_of = model.encode(source.to(self.device), lengths.to(self.device))
            output = states_of.float().cpu().numpy()
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

        [source_ids], [target_ids] = self._encoded([source], "source"), self._encoded([target], "target", target=True)
        return source_ids, target_ids, attend_pair(self.models[0], source_ids, target_ids)

    def _encoded(self, lines: Sequence[str], name: str, target: bool = False) -> list[list[int]]:
        """The subwords of lines of one side.

        Raises:
            UserError: a line too long for a finite position table.
        """
        side: SideText = self.text.target if target else self.text.source
        rows = side.encode(list(lines))
        if (longest := self.longest[target]) is not None:
            refuse_too_long(rows, longest, lambda index: f"{name}:{index + 1}", SHORTEN)
        return rows


def _least(limits: Iterable[int | None]) -> int | None:
    """The least of some limits; None: there is none."""
    return min((limit for limit in limits if limit is not None), default=None)


def choose_runs(
    folders: Sequence[Path], checkpoint: str, search: dict[str, Any], asked: Collection[str] = ()
) -> ModelChoice:
    """One run, or an ensemble of several, for PyTorch; see `posnmt.translate.engines.choose`."""
    runs = [Run.open(folder) for folder in folders]
    decode = with_options(runs[0].config.decode, search)
    Translator.refuse(decode, asked)

    def load() -> Translator:
        return Translator.load(
            runs, checkpoint, decode.positions, precision=decode.precision, cuda_graphs=decode.cuda_graphs
        )

    def identity() -> dict[str, Any]:
        return {"models": [fingerprint(run, checkpoint) for run in runs]}

    return ModelChoice(decode, load, identity, lambda: runs[0].marks, lambda: runs[0].known_marks)
