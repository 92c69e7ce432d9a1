"""Clean pairs of files: write one cleaned pair of files, and the dropped pairs to other files."""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from posnmt.base.errors import UserError, raise_all
from posnmt.base.progress import Display
from posnmt.config.writing import EXAMPLES, is_code, writing
from posnmt.corpora.cleaning import duplicates, rules
from posnmt.corpora.cleaning.duplicates import Compare, Duplicates
from posnmt.corpora.cleaning.rules import Pair, Rule
from posnmt.corpora.cleaning.scripts import script_of
from posnmt.corpora.conditions.files import PlainFiles
from posnmt.corpora.conditions.text import InputText
from posnmt.data.corpus import TextFile
from posnmt.data.survey import language_of

REASONS = (
    *(rule.reason for rule in (rules.Damaged, rules.Empty, rules.Copied, rules.Length, rules.Ratio, rules.OtherScript)),
    *duplicates.REASONS,
)
"""All reasons to drop a pair, in the order in which they are tested. Only the first that holds is counted."""


@dataclass(frozen=True)
class Settings:
    """Which pairs are dropped. The defaults are those of the command.

    Attributes:
        damaged, empty, copies: whether pairs of these kinds are dropped.
        min_length, max_length: limits of a side's characters; 0: no limit.
        max_ratio: ratio of the sides' lengths at which a pair is dropped; 0: no limit.
        min_script: smallest share of a side's letters that are in its script; 0: any script is kept.
        duplicates: which repeated pairs are dropped: `near`, `exact`, or none (`keep`).
        one_target: whether a pair is dropped if an earlier one has the same source and another target.
        languages: languages of source and target, which end the names of the cleaned files; None: by the input's names.

    Raises:
        UserError: a language is not a language code.
    """

    damaged: bool = True
    empty: bool = True
    copies: bool = True
    min_length: int = 0
    max_length: int = 2000
    max_ratio: float = 4.0
    min_script: float = 0.2
    duplicates: Compare = "near"
    one_target: bool = False
    languages: tuple[str | None, str | None] = (None, None)

    def __post_init__(self) -> None:
        raise_all(
            [
                UserError(f"{code!r} is no language code", f"--{side}-language", "for example en, pt_BR or jpn_Jpan")
                for side, code in zip(rules.NAMES, self.languages, strict=True)
                if code is not None and not is_code(code)
            ]
        )

    def of(self, texts: Sequence[InputText]) -> Settings:
        """The settings with languages from the files' names, if all files of a side name the same language."""
        languages = []
        for given, side in zip(self.languages, rules.NAMES, strict=True):
            named = {language_of([text.files[side].path.name]) for text in texts}
            languages.append(given or (named.pop() if len(named) == 1 else None))
        return Settings(**{**vars(self), "languages": tuple(languages)})

    @property
    def ends(self) -> list[str]:
        """The endings of the cleaned files: the languages, or `source` and `target` if the languages are equal."""
        ends = [language or name for language, name in zip(self.languages, rules.NAMES, strict=True)]
        return list(rules.NAMES) if ends[0] == ends[1] else ends

    def rules(self, examples: Sequence[Pair]) -> list[Rule]:
        """The rules for single pairs.

        Args:
            examples: pairs from which the scripts and the usual ratio of lengths are taken.
        """
        chosen: list[Rule] = []
        if self.damaged:
            chosen.append(rules.Damaged())
        if self.empty:
            chosen.append(rules.Empty())
        if self.copies:
            chosen.append(rules.Copied())
        if self.min_length or self.max_length:
            chosen.append(rules.Length(self.min_length or None, self.max_length or None))
        if self.max_ratio:
            chosen.append(rules.Ratio(self.max_ratio, expected_ratio(examples)))
        if self.min_script:
            source, target = (
                script_of(language, [pair[side] for pair in examples]) for side, language in enumerate(self.languages)
            )
            chosen.append(rules.OtherScript(self.min_script, (source, target)))
        return chosen


def expected_ratio(examples: Sequence[Pair]) -> float:
    """The median number of target characters per source character; 1 if both sides have blanks or neither has."""
    source, target = (writing(pair[side] for pair in examples).counts_characters for side in (0, 1))
    lengths = [(len(source.strip()), len(target.strip())) for source, target in examples]
    ratios = [target / source for source, target in lengths if source and target]
    return statistics.median(ratios) if source != target and ratios else 1.0


@dataclass(frozen=True)
class Cleaned:
    """The result of `clean`.

    Attributes:
        files: the cleaned source and target.
        manifest: settings and counts.
        settings: the settings, with the languages of the files.
        rules: the rules that were applied to single pairs.
    """

    files: tuple[Path, Path]
    manifest: dict[str, Any]
    settings: Settings
    rules: list[Rule]


def clean(
    out: Path, pairs: Sequence[tuple[Path, Path]], settings: Settings, display: Display,
    before_commit: Callable[[Settings, list[Rule]], None] = lambda settings, rules: None,
) -> Cleaned:  # fmt: skip
    """Clean pairs of files.

    The folder gets clean.X and clean.Y, where X and Y are the languages or `source` and `target`. dropped.X and
    dropped.Y have the dropped pairs, dropped.tsv the file, line, reason and detail of each, and manifest.json the
    settings and counts.

    Args:
        out: the folder.
        pairs: source and target files, plain, .gz or .xz. They are cleaned as one text, in this order.
        settings: which pairs are dropped.
        display: shows progress and reports.
        before_commit: called with what was chosen before the files get their names; may raise.

    Raises:
        UserError: a file is faulty, or no pair is left.
    """
    accept = ("utf-8", "nul") if settings.damaged else ()
    texts = [
        InputText({"source": TextFile("--source", source), "target": TextFile("--target", target)}, display, accept)
        for source, target in pairs
    ]
    settings = settings.of(texts)
    before = [text.signature() for text in texts]
    chosen = settings.rules([pair for _, pair in itertools.islice(_pairs(texts, "reading"), EXAMPLES)])
    ends = settings.ends
    with PlainFiles(out) as files:
        dropped = _dropped(texts, chosen, Duplicates(settings.duplicates, settings.one_target))
        kept = files.write(
            [f"clean.{end}" for end in ends],
            (pair for number, pair in _pairs(texts, "writing") if number not in dropped),
        )
        files.write(
            ["dropped.tsv", *(f"dropped.{end}" for end in ends)],
            (
                ("\t".join([*_place(texts, number), *dropped[number].columns(texts)]), *pair)
                for number, pair in _pairs(texts, "writing dropped pairs")
                if number in dropped
            ),
        )
        if [text.signature() for text in texts] != before:
            raise UserError("an input file changed while it was being cleaned", out, "clean it again")
        counts = Counter(each.reason for each in dropped.values())
        if not kept:
            what = ", ".join(f"{number:,} {reason}" for reason, number in counts.most_common())
            raise UserError(f"all pairs were dropped: {what}", "--source, --target", "check the files and the limits")
        for text in texts:
            text.tell_removed()
        facts = {"read": kept + len(dropped), "kept": kept, "dropped": {each: counts[each] for each in REASONS}}
        parameters = {**vars(settings), "files": [text.parameters for text in texts], "rules": {
            rule.reason: repr(rule) for rule in chosen
        }}  # fmt: skip
        before_commit(settings, chosen)
        manifest = files.finish("clean", parameters, facts)
        return Cleaned((out / f"clean.{ends[0]}", out / f"clean.{ends[1]}"), manifest, settings, chosen)


def table(manifest: dict[str, Any]) -> Table:
    """The numbers of pairs that were read, dropped for each reason, and kept."""
    facts = manifest["statistics"]
    shown = Table("pairs", box=SIMPLE)
    shown.add_column("number", justify="right")
    shown.add_column("share", justify="right")
    rows = {"read": facts["read"], **{f"  {each}": number for each, number in facts["dropped"].items() if number}}
    for name, number in {**rows, "kept": facts["kept"]}.items():
        shown.add_row(name, f"{number:,}", f"{number / facts['read']:.1%}")
    return shown


@dataclass(frozen=True)
class _Dropped:
    """Why a pair is dropped.

    Attributes:
        reason: one of `REASONS`.
        detail: the rule's detail.
        first: the number of the pair that this one repeats, if it is a duplicate.
    """

    reason: str
    detail: str = ""
    first: int | None = None

    def columns(self, texts: Sequence[InputText]) -> tuple[str, str]:
        return self.reason, self.detail if self.first is None else ":".join(_place(texts, self.first))


def _dropped(texts: Sequence[InputText], chosen: Sequence[Rule], repeated: Duplicates) -> dict[int, _Dropped]:
    """The dropped pairs, by their number in all texts."""
    dropped = {}
    for number, pair in _pairs(texts, "cleaning"):
        for rule in chosen:
            detail = rule(pair)
            if detail is not None:
                dropped[number] = _Dropped(rule.reason, detail)
                break
        else:
            if (repeats := repeated(number, pair)) is not None:
                dropped[number] = _Dropped(repeats[0], first=repeats[1])
    return dropped


def _pairs(texts: Sequence[InputText], doing: str) -> Iterator[tuple[int, Pair]]:
    """The pairs of all texts, numbered from 0."""
    pairs = itertools.chain.from_iterable(text.pairs(doing) for text in texts)
    return ((number, (pair.source, pair.target)) for number, pair in enumerate(pairs))


def _place(texts: Sequence[InputText], number: int) -> tuple[str, str]:
    """The source file and line of a pair. All texts must have been read before."""
    ends = list(itertools.accumulate(text.read for text in texts))
    index = bisect(ends, number)
    file = str(texts[index].files["source"].path).translate({ord(sign): " " for sign in "\t\n\r"})
    return file, str(number + texts[index].read - ends[index] + 1)
