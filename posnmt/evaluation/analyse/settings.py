"""The settings of an analysis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.completeness.labels import OPTION
from posnmt.evaluation.analyse.measure import DEFAULT_RESAMPLING, Resampling
from posnmt.evaluation.analyse.neural import faults_of as neural_faults
from posnmt.evaluation.analyse.units import language_faults
from posnmt.metrics.registry import DEFAULT_METRICS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of an analysis.

    Attributes:
        unit: of lengths: `words`, `tokens`, `subwords` or `characters`; default: subwords with a run or a model of
            them, else words, and characters of text that has no blanks between words.
        subword_model: for `subwords`: a SentencePiece model, or a `text` folder (see `length_unit`); also used for the
            target, unless there is a `target_subword_model`.
        bin_width: width of the bins; default: 10, in characters 20, unless there are `bin_edges`.
        bin_edges: the first length of each bin but the first.
        max_trained_length, min_trained_length: longest and shortest source in training, in the unit.
        trained_lengths: instead of these two, shortest and longest source in the training of each output.
        run: a run that determines the subwords, the training lengths that are marked, and the training text that is
            searched for test sentences, unless other settings do.
        trained_on: source text of the training; its lengths are the training lengths, and it is searched for test
            sentences.
        trained_store: folder of the store that a system was trained on, which is searched for test sentences.
        metrics: names, see `posnmt.metrics.registry.metric`.
        bleu_tokenizer: sacreBLEU's tokeniser for BLEU, and for BLEU by position; default: that of `target_language`, or
            of the script of the reference.
        target_language, source_language: their codes, such as `ja`.
        completeness: whether to measure sentence ends, aligned source words and omitted sentences.
        parallel: source and target of further aligned text, to learn the lexicon of completeness from.
        realign: whether to cut paragraphs into a line for each sentence of the source before anything is measured.
        judged: name of an output → a file of human labels: whether its sentences are complete.
        word_frequencies: text whose word frequencies make buckets of words, such as the target side of training;
            default: the reference.
        documents: file with the document id of each line (the text before the first blank); resampling then draws whole
            documents.
        baseline: name of the system that the others are compared with; default: the best one in the verdict on length,
            and the first one in tables and differences.
        lower_is_better: metrics of other programs of which lower scores are better.
        resampling: of intervals and significance tests.
        metric_batch: number of sentences that a neural metric scores together.
        processes: number of counting processes; above 1, the calling script needs an `if __name__ == "__main__"` guard.
    """

    unit: str | None = None
    subword_model: Path | None = None
    target_subword_model: Path | None = None
    bin_width: int | None = None
    bin_edges: list[int] | None = None
    max_trained_length: int | None = None
    min_trained_length: int | None = None
    trained_lengths: Sequence[Sequence[int]] = ()
    run: Path | None = None
    trained_on: Path | None = None
    trained_store: Path | None = None
    metrics: Sequence[str] = DEFAULT_METRICS
    bleu_tokenizer: str | None = None
    target_language: str | None = None
    source_language: str | None = None
    completeness: bool = False
    realign: bool = False
    parallel: tuple[Path, Path] | None = None
    judged: Mapping[str, Path] = field(default_factory=dict)
    word_frequencies: Path | None = None
    documents: Path | None = None
    baseline: str | None = None
    lower_is_better: Sequence[str] = ()
    resampling: Resampling = DEFAULT_RESAMPLING
    metric_batch: int = 8
    processes: int = 1

    def faults(self) -> list[UserError]:
        """All faults that can be detected without reading a file."""
        faults = []
        longest, shortest = self.max_trained_length, self.min_trained_length
        if self.trained_on is not None and (longest is not None or shortest is not None):
            what, todo = "the trained lengths are specified twice", "give a training text or lengths, not both"
            faults.append(UserError(what, "--trained-on", todo))
        for limit in (longest, shortest):
            if limit is not None and limit < 1:
                faults.append(UserError(f"a trained length is at least 1; got {limit}"))
        if longest is not None and shortest is not None and shortest > longest:
            faults.append(UserError(f"the shortest trained length, {shortest}, is above the longest, {longest}"))
        if self.bin_width is not None and self.bin_edges is not None:
            faults.append(UserError("the bins are specified twice", "--bin-edges", "give a width or edges, not both"))
        faults += neural_faults(self.metrics)
        faults += language_faults(self.source_language, "--source-language")
        return [*faults, *language_faults(self.target_language), *self._completeness_faults()]

    def _completeness_faults(self) -> list[UserError]:
        """The faults of options that need `--completeness`."""
        given = {"--parallel": self.parallel, OPTION: self.judged}
        return [
            UserError("only completeness reads it", option, "add --completeness, or leave it out")
            for option, value in given.items()
            if value and not self.completeness
        ]


DEFAULT = Settings()


def with_run(settings: Settings, say: Callable[[str], None]) -> Settings:
    """Settings in which a run, or a subword model, determines what is not set.

    Args:
        settings: of an analysis.
        say: called with a note if the training text of the run no longer exists.

    Raises:
        UserError: the run cannot be opened.
    """
    if settings.run is not None:
        from posnmt.evaluation.analyse.seen import training_store
        from posnmt.run.run import Run

        run = Run.open(settings.run)
        store = settings.trained_store or training_store(run)
        if store is None:
            missing = f"the training text of {settings.run} is not prepared here"
            say(f"note: {missing}: test sentences are not looked for in it")
        settings = replace(settings, trained_store=store)
        if settings.unit in (None, "subwords"):
            text, lengths = run.folder / "text", run.training_lengths.get("source")
            model, target = settings.subword_model or text, settings.target_subword_model or text
            settings = replace(settings, subword_model=model, target_subword_model=target)
            if settings.max_trained_length is None and settings.trained_on is None and lengths is not None:
                settings = replace(settings, max_trained_length=lengths["longest"])
    return settings if settings.unit or not settings.subword_model else replace(settings, unit="subwords")
