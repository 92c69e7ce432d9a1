"""`posnmt show`: from runs and a text to a page, whose sections depend on what the runs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from posnmt.base.errors import UserError, raise_all
from posnmt.base.progress import Display
from posnmt.base.version import __version__
from posnmt.evaluation.report.embed import SHARED
from posnmt.evaluation.report.figures import Drawing
from posnmt.evaluation.report.grid import to_csv
from posnmt.evaluation.report.page import page
from posnmt.evaluation.report.write import figure_files, place_faults, write_files
from posnmt.evaluation.show import by_distance, by_position, by_word
from posnmt.evaluation.show.collect import attentions, collect, has_attention, has_schemes
from posnmt.evaluation.show.lines import MOST_WORDS, Lines, chosen, dev_of, read
from posnmt.evaluation.show.sections import Section, Sentence, Shown
from posnmt.run.run import Run
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator
from posnmt.translate.values import Positions

PAGE = "report.html"


def show(
    folders: Mapping[str, Path],
    source: Path | None,
    target: Path | None,
    out: Path,
    most: int,
    sentences: int,
    length: int | None,
    display: Display,
) -> Path:
    """Draw the effect of the position parts of some runs, all on the same lines; return the path of the page.

    Args:
        folders: name on the page → folder of a run.
        source, target: files of lines. Without a source, the dev text of the first run is used; without a target, the
            translations of each model.
        out: folder to write.
        most: number of lines for the means.
        sentences: number of lines that are drawn with their words.
        length: see `posnmt.translate.values.Positions`.
        display: progress.

    Raises:
        UserError: a folder that is no run, no lines, faulty text, or runs of which nothing can be shown.
    """
    raise_all(place_faults(out))
    if target is not None and source is None:
        raise UserError("translations of no source", "--target", "add --source")
    runs = {name: Run.open(folder) for name, folder in folders.items()}
    lines = read(source, target) if source else dev_of(next(iter(runs.values())), next(iter(runs)))
    translators = {name: Translator.load([run], precision="fp32") for name, run in runs.items()}
    lacking = _lacking(translators)
    lines = chosen(lines, list(translators.values()), most)
    shown, notes = [], [*lines.notes]
    for number, (name, translator) in enumerate(translators.items()):
        display.show("measuring", number / len(runs), name)
        if name in lacking:
            notes.append(lacking[name])
        if has_attention(translator.models[0]) or has_schemes(translator.models[0]):
            one, left_out = _shown(name, number, runs[name], translator, lines, sentences, length)
            shown.append(one)
            notes += left_out
    write_files(files_of(Page(shown, lines, notes), PAGE, display), out)
    return out / PAGE


def _lacking(translators: Mapping[str, Translator]) -> dict[str, str]:
    """Run → a sentence about what cannot be shown of it.

    Raises:
        UserError: nothing can be shown of any run.
    """
    sentences, bare = {}, []
    for name, translator in translators.items():
        model = translator.models[0]
        if not has_attention(model):
            kind = model.config.architecture
            sentences[name] = f"{name} is {kind}, which has no attention by layer and head: no figure shows any of it."
            if not has_schemes(model):
                sentences[name] += " It has no position schemes either, so nothing of it is shown."
                bare.append(f"{name} ({kind})")
    if len(bare) == len(translators):
        what = f"nothing to show: {', '.join(bare)} has neither attention by layer and head nor position schemes"
        raise UserError(what, None, "name a run of a Transformer, or of an architecture with position schemes")
    return sentences


def _shown(
    name: str,
    number: int,
    run: Run,
    translator: Translator,
    lines: Lines,
    sentences: int,
    length: int | None,
) -> tuple[Shown, list[str]]:
    """The content of the page for one run, and sentences about what was left out."""
    targets = lines.targets
    if targets is None:
        search = Search(run.config.decode, scored=False)
        targets = [each.text for each in translator.translate(numbered(lines.sources), search)]
    positions = collect(translator, run, lines.sources, targets, length)
    drawn: list[Sentence] = []
    too_long = 0
    notes: list[str] = []
    if has_attention(translator.models[0]):
        for line, source, target in zip(lines.numbers, lines.sources, targets, strict=True):
            longest = max(
                len(translator.text.source.encode([source])[0]), len(translator.text.target.encode([target])[0])
            )
            too_long += longest > MOST_WORDS
            if len(drawn) < sentences and longest <= MOST_WORDS:
                drawn.append(Sentence(line, attentions(translator, source, target)))
        if len(drawn) < sentences and too_long:
            notes.append(
                f"{name}: {len(drawn)} of {len(drawn) + too_long} lines are drawn with words; the others have more than"
                f" {MOST_WORDS} subwords, too many for a figure, and are in the means alone."
            )
    if run.config.train.concatenate or run.config.train.context:
        notes.append(
            f"{name}: training also joined sentences (train.concatenate or train.context), so that it had positions and"
            " distances beyond those of its longest sentence, which the figures mark as not in training."
        )
    return Shown(name, number, _about(run), positions, drawn, _share_from(name, positions)), notes


def _about(run: Run) -> str:
    """A run's system and the lengths of its training."""
    model = run.config.model
    lengths = run.training_lengths.get("source")
    trained = f"sources of {lengths['shortest']} to {lengths['longest']} subwords in training" if lengths else ""
    return ", ".join(filter(None, [model.system or "schemes of its own", trained]))


def _share_from(name: str, positions: Positions) -> str:
    """Where the shares of training sentences come from, in a sentence."""
    trained = positions.encoder.trained
    if trained is None:
        return f"{name}: its record does not have the lengths of training, so no share is known."
    if trained.lengths is None:
        return (
            f"{name}: the store of its training text is not here, so the share is from the shortest and the longest"
            " sentence in record.json; between the two it is unknown."
        )
    return f"{name}: the share is counted in the store of its training text."


@dataclass(frozen=True)
class Page:
    """The content of the page.

    Attributes:
        runs: the values of each run.
        lines: the lines that these are measured on.
        notes: what was left out or cannot be shown, in sentences.
    """

    runs: Sequence[Shown]
    lines: Lines
    notes: Sequence[str]

    def sections(self) -> list[Section]:
        """The sections that have a figure."""
        counted = by_distance.counted(self.runs)
        every = [
            by_word.attention(self.runs),
            by_distance.attention(self.runs),
            by_distance.logits(self.runs),
            replace(counted, groups=[*counted.groups, *by_word.counted(self.runs)]),
            by_position.similarity(self.runs),
            by_word.penalties(self.runs),
            by_position.moved(self.runs),
            by_position.vectors(self.runs),
        ]
        return [section for section in every if section.charts]


def files_of(what: Page, name: str, display: Display) -> dict[str, bytes]:
    """The page under a name, and the SVG, PDF and CSV files of its figures, by their paths in the page's folder."""
    from posnmt.evaluation.report.figures import draw

    sections = what.sections()
    charts = [chart for section in sections for chart in section.charts]
    drawings: dict[str, Drawing] = {}
    for number, chart in enumerate(charts):
        display.show("drawing", number / len(charts), chart.title)
        drawings |= draw([chart])
    files = figure_files(drawings)
    for chart in charts:
        files[f"figures/{chart.name}.csv"] = to_csv([chart.by_place()]).encode("utf-8")
    text = page(
        "show.html",
        SHARED,
        charts,
        drawings,
        {},
        runs=what.runs,
        lines=what.lines,
        notes=what.notes,
        sections=sections,
        marked=any(chart.training and set(chart.training) != {"seen"} for chart in charts),
        version=__version__,
    )
    return {**files, name: text.encode("utf-8")}
