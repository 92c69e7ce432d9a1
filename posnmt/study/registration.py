"""What a study registers before its first training, and what was changed afterwards.

Before anything is trained, study.json gets an entry with the claims (their comparisons, margins and expected effects),
the comparisons of every two systems that a recommendation rests on, the systems with their numbers of seeds, the
version of the analysis, the time, and the SHA-256 of all this as canonical JSON (sorted keys, no blanks). A later run
with another content adds an entry that says how many trainings had begun, and the report shows the differences beside
each verdict. Titles, wording, notes, tables and figures are not registered. Comparisons may be added beside a test;
those that were added after the first training are marked as not registered.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from posnmt.base.files import load_json
from posnmt.base.output import write_json
from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES
from posnmt.study.claims import Claim, Comparison, Scale
from posnmt.study.copied import MARK, Copy, Mark
from posnmt.study.measures import LOSS
from posnmt.study.plan import KINDS, Plan
from posnmt.study.recipe import Recipe, at, lacks
from posnmt.study.scorable import has_documents
from posnmt.study.workflow.folder import SHORT, STEPS, STUDY
from posnmt.study.workflow.graph import Graph

FILE = "registered.json"
"""The file of a published copy with its entries."""
ANALYSIS = 1
"""The version of the analysis: of tests, corrections and their power."""
PAIR = "the comparison "
"""What the description of a change begins with that concerns two systems and no claim."""
STOPPING = "as many seeds as are registered, none added after a look at results"


class RegisteredFigures(TypedDict):
    """One side of a comparison: see `posnmt.study.claims.Figures`."""

    system: str
    minus: str | None
    lengths: str | list[int | None] | None
    share: float


class RegisteredAnalysis(TypedDict):
    """Which text a comparison is measured on, and how.

    Attributes:
        documents: True: whole documents are sampled; False: sentences of several documents are joined.
    """

    name: str
    text: str
    tokenizer: str | None
    corpus: str | None
    join: int | None
    rest: str
    documents: NotRequired[bool]


class RegisteredLikelihood(TypedDict):
    """Which text a comparison of losses is measured on, which models score it, and where its classes begin."""

    name: str
    corpus: str | None
    trainings: list[str]
    systems: list[str] | None
    swap: bool
    shift: int | None
    least_dense: float
    least_reached: float


RegisteredComparison = TypedDict(
    "RegisteredComparison",
    {
        "analysis": RegisteredAnalysis | RegisteredLikelihood,
        "class": NotRequired[str],
        "measure": str,
        "of": RegisteredFigures,
        "is": str,
        "than": RegisteredFigures | None,
        "by": float,
        "within": float | None,
        "relative": bool,
        "expects": dict[str, Any] | None,
    },
)
"""Everything that determines the verdict and the power of a comparison at a scale."""


class RegisteredClaim(TypedDict):
    """What is registered of a claim.

    Attributes:
        primary: whether it is in the family of Holm's correction.
        test: the comparison that decides it.
        beside: the others.
    """

    primary: bool
    test: RegisteredComparison
    beside: list[RegisteredComparison]


class Content(TypedDict):
    """What a study registers.

    Attributes:
        analysis: see `ANALYSIS`.
        claims: by their names.
        exclusions: what cannot be decided: the floor, systems that need not reach it, and the fewest sentences.
        seeds: of each system and training, which are also those of the blocks.
        stopping: when no more seeds are added.
        pairs: the comparisons of every two systems, by their descriptions; none without a section `recommend`.
    """

    analysis: int
    claims: dict[str, RegisteredClaim]
    exclusions: dict[str, Any]
    seeds: dict[str, int]
    stopping: str
    pairs: NotRequired[dict[str, RegisteredComparison]]


class Entry(TypedDict):
    """What was registered at one time.

    Attributes:
        time: in UTC.
        trainings: how many had begun then.
        sha256: of the canonical JSON of the content.
        content: what was asked.
    """

    time: str
    trainings: int
    sha256: str
    content: Content


class _Study(TypedDict):
    """The part of study.json that registration reads."""

    registered: NotRequired[list[Entry]]


@dataclass(frozen=True)
class Change:
    """A difference between what was registered and what came later.

    Attributes:
        claim: the claim that it concerns; empty: all claims, or the study.
        after: number of trainings that had begun.
        what: the setting that was changed.
        old, new: its values; None where there is none.
    """

    claim: str
    after: int
    what: str
    old: Any
    new: Any

    @property
    def sentence(self) -> str:
        """Say in words what changed, and after how many trainings."""
        return f"changed after {_trainings(self.after)}: {self.what} {_shown(self.old)} → {_shown(self.new)}"


@dataclass(frozen=True)
class History:
    """What a study registered, in order.

    Attributes:
        entries: those of study.json, and one more if the recipe of the report differs from the last; empty if nothing
            was registered.
    """

    entries: Sequence[Entry]

    @property
    def before_training(self) -> bool:
        """Whether the first entry was made before the first training."""
        return bool(self.entries) and self.entries[0]["trainings"] == 0

    @property
    def sentence(self) -> str:
        """Say when the study was registered, and whether the first training had begun."""
        if not self.entries:
            return "not registered before the first training"
        first = self.entries[0]
        when = f"{first['time'][:16].replace('T', ' ')} UTC, SHA-256 {first['sha256'][:16]}"
        if self.before_training:
            return f"before the first training ({when})"
        return f"not registered before the first training; after {_trainings(first['trainings'])} ({when})"

    @property
    def changes(self) -> list[Change]:
        """All later changes, in their order."""
        return [
            change
            for before, after in zip(self.entries, self.entries[1:], strict=False)
            for change in _changes(before["content"], after["content"], after["trainings"])
        ]

    def of_claim(self, claim: Claim, recipe: Recipe) -> list[str]:
        """A sentence for each change that concerns a claim: of the claim, of all claims, or of its systems' seeds."""
        own = {f"seeds of {_name(recipe.variant(text))}" for text in claim.variants()}
        return [
            change.sentence
            for change in self.changes
            if (change.claim == str(claim.claim) if change.claim else change.what in own or _of_all_claims(change))
        ]

    def of_others(self, recipe: Recipe) -> list[str]:
        """A sentence for each change that concerns no claim of the recipe: removed claims, other systems, pairs."""
        there = {str(claim.claim) for claim in recipe.claims}
        named = {f"seeds of {_name(recipe.variant(text))}" for claim in recipe.claims for text in claim.variants()}
        return [
            f"claim {change.claim}, {change.sentence}" if change.claim else change.sentence
            for change in self.changes
            if (change.claim not in there if change.claim else change.what not in named)
            and not (there and _of_all_claims(change))
        ]

    def has(self, claim: Claim, comparison: Comparison, recipe: Recipe, scale: Scale) -> bool:
        """Whether a comparison is as it was registered before the first training."""
        if not self.before_training:
            return False
        registered = self.entries[0]["content"]["claims"].get(str(claim.claim))
        asked = _comparison(comparison, recipe, scale)
        return registered is not None and asked in [registered["test"], *registered["beside"]]


def content(recipe: Recipe, scale: Scale) -> Content:
    """Collect what a study registers: claims, exclusions, seeds, and when it stops."""
    registered: Content = {
        "analysis": ANALYSIS,
        "claims": {str(claim.claim): _claim(claim, recipe, scale) for claim in recipe.claims_at(scale)},
        "exclusions": {
            "floor": recipe.scales[scale].floor,
            "exempt": sorted(name for name, system in recipe.systems.items() if system.without),
            "fewest sentences": FEWEST_SENTENCES,
        },
        "seeds": {_name(variant): recipe.seeds(variant, scale) for variant in recipe.variants(scale)},
        "stopping": STOPPING,
    }
    if recipe.recommend is not None:
        training = next(iter(recipe.trainings))
        systems = [system for system, trained in recipe.variants(scale) if trained == training]
        asked = [
            _comparison(comparison, recipe, scale)
            for pair in itertools.combinations(systems, 2)
            for comparison in recipe.recommend.comparisons(*pair).values()
        ]
        registered["pairs"] = {_described(each): each for each in asked}
    return registered


def digest(registered: Content) -> str:
    """The SHA-256 of the canonical JSON of a content."""
    text = json.dumps(registered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def register(study_plan: Plan, out: Path, copy: Copy | None = None) -> list[str]:
    """Register what a study asks, before anything is trained; return what changed since it was last registered.

    Until the first training has begun, an entry can be replaced. A study without entries that adopts a copy of the same
    recipe and scale takes over the entries of the copy.

    Args:
        study_plan: of the study.
        out: its folder, with study.json.
        copy: the copy that it is about to adopt.

    Raises:
        UserError: study.json, or the copy's file, is damaged.
    """
    entries = read(out) or (_of_copy(study_plan, copy) if copy is not None else [])
    count = len(_begun(study_plan, out, copy))
    free = count == 0 and all(entry["trainings"] == 0 for entry in entries)
    history = History(_with_current(study_plan, [] if free else entries, count))
    if free and entries and entries[-1]["sha256"] == history.entries[-1]["sha256"]:
        history = History(entries)
    about = load_json(out / STUDY, dict[str, Any], "the study's file", "restore it")
    if about.get("registered") != history.entries:
        write_json(out / STUDY, {**about, "registered": list(history.entries)})
    known = History(entries).changes
    return [
        f"claim {change.claim}, {change.sentence}" if change.claim else change.sentence
        for change in history.changes[len(known) :]
    ]


def history(study_plan: Plan, out: Path) -> History:
    """What a study registered, and how the recipe of this plan differs from it.

    Raises:
        UserError: study.json is damaged.
    """
    entries = read(out)
    return History(_with_current(study_plan, entries, len(_begun(study_plan, out, None))) if entries else [])


def read(out: Path) -> list[Entry]:
    """The entries in a study's folder; none before the first run.

    Raises:
        UserError: study.json is damaged.
    """
    if not (out / STUDY).exists():
        return []
    study = load_json(out / STUDY, _Study, "the study's file", "restore it, or choose another --out")
    return study.get("registered", [])


def _with_current(study_plan: Plan, entries: Sequence[Entry], count: int) -> list[Entry]:
    """The entries, and a further one if the plan's recipe differs from the last."""
    asked = content(study_plan.recipe, study_plan.scale)
    key = digest(asked)
    if entries and entries[-1]["sha256"] == key:
        return [*entries]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return [*entries, {"time": now, "trainings": count, "sha256": key, "content": asked}]


def _of_copy(study_plan: Plan, copy: Copy) -> list[Entry]:
    """The entries of a copy of this recipe and scale; none of a copy of another one."""
    if not (copy.folder / FILE).exists():
        return []
    again = "publish the study again"
    mark = load_json(copy.folder / MARK, Mark, "the copy's file", again)
    if (mark["recipe"], mark["scale"]) != (study_plan.recipe.recipe, study_plan.scale):
        return []
    return load_json(copy.folder / FILE, list[Entry], "what the copy registered", again)


def _begun(study_plan: Plan, out: Path, copy: Copy | None) -> set[str]:
    """The trainings that have begun here, by this plan or an earlier one, or that are finished in an adopted copy."""
    begun = {path.parents[1].name for path in out.glob(f"{STEPS}/train/*/run/record.json")}
    if copy is not None:
        graph = Graph(study_plan.steps.values(), KINDS)
        begun |= {graph.key(name)[:SHORT] for name in study_plan.trainings if graph.key(name) in copy.trained}
    return begun


def _claim(claim: Claim, recipe: Recipe, scale: Scale) -> RegisteredClaim:
    """What is registered of a claim."""
    return {
        "primary": claim.primary,
        "test": _comparison(claim.test, recipe, scale),
        "beside": [_comparison(each, recipe, scale) for each in claim.beside],
    }


def _comparison(comparison: Comparison, recipe: Recipe, scale: Scale) -> RegisteredComparison:
    """What is registered of a comparison: everything that determines its verdict and its power at a scale."""
    left = {"expects"} if comparison.measure == LOSS else {"expects", "class_"}
    tree: Any = comparison.model_dump(mode="json", by_alias=True, exclude=left)
    expected = comparison.expects.get(scale)
    sides = {"of": comparison.of, "than": comparison.than}
    for name, side in sides.items():
        if side is not None:
            tree[name]["lengths"] = side.lengths_at(scale)
    of_text = _likelihood if comparison.measure == LOSS else _analysis
    tree["analysis"] = of_text(comparison.analysis, recipe, scale)
    tree["expects"] = None if expected is None else expected.model_dump(mode="json", exclude_none=True)
    return tree  # type: ignore[no-any-return]


def _analysis(name: str, recipe: Recipe, scale: Scale) -> RegisteredAnalysis:
    """What is registered of an analysis."""
    analysis = recipe.analyses[name]
    test = recipe.tests[analysis.test]
    registered: RegisteredAnalysis = {
        "name": name,
        "text": analysis.text_at(scale),
        "tokenizer": None if lacks(analysis.bleu_tokenizer, scale) else at(analysis.bleu_tokenizer, scale),
        "corpus": None if lacks(test.corpus, scale) else at(test.corpus, scale),
        "join": test.join,
        **test.joining(scale),
    }
    if has_documents(recipe, test, scale):
        registered["documents"] = True
    return registered


def _likelihood(name: str, recipe: Recipe, scale: Scale) -> RegisteredLikelihood:
    """What is registered of a likelihood: everything that determines its losses, their classes and the blocks."""
    from posnmt.evaluation.analyse.zones import LEAST_DENSE, LEAST_REACHED  # imports NumPy

    likelihood = recipe.likelihoods[name]
    corpus = recipe.tests[likelihood.test].corpus
    return {
        "name": name,
        "corpus": None if lacks(corpus, scale) else at(corpus, scale),
        "trainings": likelihood.trainings,
        "systems": likelihood.systems,
        "swap": likelihood.swap,
        "shift": likelihood.shift,
        "least_dense": LEAST_DENSE,
        "least_reached": LEAST_REACHED,
    }


def _changes(before: Content, after: Content, count: int) -> Iterator[Change]:
    """The differences between two contents; comparisons that were added beside a test are none."""
    for name in [*before["claims"], *(name for name in after["claims"] if name not in before["claims"])]:
        old, new = (each["claims"].get(name) for each in (before, after))
        if old is None or new is None:
            yield Change(name, count, "the claim", old and "registered", new and "added")
            continue
        before_it, after_it = ({"primary": each["primary"], **each["test"]} for each in (old, new))
        yield from _differences(name, count, before_it, after_it)
        kept = [*new["beside"], new["test"]]
        for comparison in old["beside"]:
            if comparison not in kept:
                yield Change(name, count, f"the comparison {_described(comparison)}", "registered", None)
    first, second = (
        {key: value for key, value in each.items() if key not in ("claims", "seeds", "pairs")}
        for each in (before, after)
    )
    yield from _differences("", count, first, second)
    yield from _of_pairs(before.get("pairs", {}), after.get("pairs", {}), count)
    for name in {**before["seeds"], **after["seeds"]}:
        had, has = (each["seeds"].get(name) for each in (before, after))
        if had != has:
            yield Change("", count, f"seeds of {name}", had, has)


def _of_pairs(before: Mapping[str, Any], after: Mapping[str, Any], count: int) -> Iterator[Change]:
    """The differences between the comparisons of every two systems."""
    for name in {**before, **after}:
        if name in before and name in after:
            yield from _differences("", count, before[name], after[name], PAIR + name)
        else:
            yield Change("", count, PAIR + name, *(("registered", None) if name in before else (None, "added")))


def _differences(claim: str, count: int, before: Any, after: Any, above: str = "") -> Iterator[Change]:
    """The settings that differ, each by the names of the settings around it and its own."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from _differences(claim, count, before.get(key), after.get(key), f"{above}.{key}" if above else key)
    elif before != after:
        yield Change(claim, count, above, before, after)


def _described(comparison: RegisteredComparison) -> str:
    """A registered comparison in a few words: "re-both (bleu, test) higher transformer"."""
    than = "0" if comparison["than"] is None else _side(comparison["than"])
    asked = f"{_side(comparison['of'])} {comparison['is']} {than}"
    measure = " ".join(filter(None, (comparison["measure"], comparison.get("class"))))
    return f"{asked} ({measure}, {comparison['analysis']['name']})"


def _side(figures: RegisteredFigures) -> str:
    """A system, or two, and the sentences that it is measured on."""
    minus = f" minus {figures['minus']}" if figures["minus"] else ""
    where = "" if figures["lengths"] == "all" else f" at {_shown(figures['lengths'])}"
    return f"{figures['system']}{minus}{where}" + (f" swapped {figures['share']:g}" if figures["share"] else "")


def _of_all_claims(change: Change) -> bool:
    """Whether a change concerns every claim, and not the seeds of a system or the comparison of a pair."""
    return not change.claim and not change.what.startswith(("seeds of ", PAIR))


def _name(variant: tuple[str, str]) -> str:
    return "/".join(variant)


def _trainings(count: int) -> str:
    return f"{count} training{'' if count == 1 else 's'}"


def _shown(value: Any) -> str:
    """A value as it is written in a recipe."""
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
