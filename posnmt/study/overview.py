"""What a study's report says of the study at a glance: languages, corpora, length caps, updates, versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from posnmt.base.progress import duration
from posnmt.study.measured import StudyResults
from posnmt.study.recipe import Text
from posnmt.study.trainings import text_config
from posnmt.study.wording import counted


def facts(results: StudyResults, states: str) -> list[tuple[str, str]]:
    """Terms and what they are in this study.

    Args:
        results: of the study.
        states: of its trainings, counted.
    """
    recipe, setting = results.recipe, results.recipe.scales[results.scale]
    pair = recipe.pair_at(results.scale)
    seeds = [recipe.seeds(variant, results.scale) for variant in recipe.variants(results.scale)]
    listed = [
        ("Recipe", recipe.recipe),
        ("Languages", f"{pair.source} to {pair.target}"),
        ("Scale", results.scale),
        ("Seeds", counted(seeds or [setting.seeds], "seed").partition(" seed")[0]),
        ("Trainings", states or "none"),
        ("Training time", duration(results.cost)),
        ("Corpora", _corpora(results)),
        ("Longest pair in training, in subwords", _longest(results)),
        ("Updates", _spread(run["updates"] for run in results.runs)),
        ("Processors", _processors(run.get("processor") for run in results.trainings)),
        ("Registered", results.registration.sentence if results.verdicts else ""),
        ("Versions", ", ".join(f"{name} {version}" for name, version in results.versions.items())),
    ]
    return [(term, text) for term, text in listed if text]


def _corpora(results: StudyResults) -> str:
    """The corpora with their files, and the pairs of those that are prepared."""
    setting = results.recipe.scales[results.scale]
    pairs = {name: f" ({facts['pairs']:,} pairs)" for name, facts in results.corpora.items()}
    if setting.artificial is not None:
        return "; ".join(f"{name}{count}" for name, count in pairs.items()) or "the built-in language pair"
    named = [
        f"{name}: {', '.join(_named(text) for text in (texts if isinstance(texts, list) else [texts]))}"
        for name, texts in setting.corpora.items()
    ]
    trained = [f"{name}{count}" for name, count in pairs.items()]
    return "; ".join([*named, *trained])


def _named(text: Text) -> str:
    """A corpus by its file or its public name, and which part of it."""
    if text.public is not None:
        return str(text.public.get("name") or text.public.get("sacrebleu") or next(iter(text.public.values())))
    assert text.source is not None
    name = text.source.removesuffix(".xz").removesuffix(".gz").removesuffix(".{source}")
    part = f" lines {text.lines[0]:,} to {text.lines[1]:,}" if text.lines else ""
    return f"{name}{part}" + (f" ({text.take:,} pairs of it)" if text.take else "")


def _longest(results: StudyResults) -> str:
    """The longest pair in the text of each training, as the runs recorded it, and the limit that the recipe sets."""
    recipe, listed = results.recipe, {}
    for name in dict.fromkeys(training for _, training in recipe.variants(results.scale)):
        cap: Any = text_config(recipe, results.scale, recipe.trainings[name]).get("data", {}).get("max_length", 100)
        longest = _spread(run["longest_pair"] for run in results.runs if run["training"] == name)
        limit = "no limit" if cap is None else f"limit {cap:,}"
        listed[recipe.trainings[name].label or name] = f"{longest or 'not known'} ({limit})"
    if len(set(listed.values())) == 1:
        return next(iter(listed.values()))
    return "; ".join(f"{name}: {longest}" for name, longest in listed.items())


def _processors(names: Iterable[str | None]) -> str:
    """The processors of the trainings, with how many each made if there are several."""
    counts = Counter(name for name in names if name)
    return ", ".join(f"{name} ({count})" if len(counts) > 1 else name for name, count in counts.most_common())


def _spread(counts: Iterable[int | None]) -> str:
    """Numbers as one, or as the least and the most; empty without any."""
    known = [count for count in counts if count is not None]
    if not known:
        return ""
    return f"{known[0]:,}" if len(set(known)) == 1 else f"{min(known):,} to {max(known):,}"
