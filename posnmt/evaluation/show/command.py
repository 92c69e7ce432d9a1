"""`posnmt show`: from runs and a text to a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from posnmt.base.errors import UserError, raise_all
from posnmt.base.progress import Display
from posnmt.evaluation.report.write import place_faults, write_files
from posnmt.evaluation.show.collect import attentions, collect, has_attention, has_schemes
from posnmt.evaluation.show.lines import MOST_WORDS, Lines, chosen, dev_of, read
from posnmt.evaluation.show.page import Page, files_of
from posnmt.evaluation.show.sections import Sentence, Shown
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
    """Draw what the position parts of some runs do, on the same lines, and return the page.

    Args:
        folders: of runs, by the names that the page gives them.
        source, target: files of lines; without a source the dev text of the first run, without a target the
            translations of each model.
        out: folder to write.
        most: lines that means are over.
        sentences: lines that are drawn with words.
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
    """What cannot be shown of some runs, in sentences.

    Raises:
        UserError: nothing of any run can be shown.
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
    """What is drawn of one run, and what was left out."""
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
