"""The faults of a recipe's likelihoods, and of the claims on them."""

from __future__ import annotations

from collections.abc import Iterator

from posnmt.base.errors import nearest
from posnmt.study.claims import Claim, Comparison
from posnmt.study.measures import LOSS
from posnmt.study.recipe import Likelihood, Recipe, Scale, Test, at, lacks

Fault = tuple[tuple[str, ...], str, str]
"""The keys of a setting, what is wrong with it, and what to do."""


def unscorable(recipe: Recipe, likelihood: Likelihood) -> Iterator[tuple[str, str, str]]:
    """The settings that make a likelihood impossible: key, what is wrong, what to do. Names may be unknown."""
    reordered = {recipe.trainings[name].reorder for name in likelihood.trainings if name in recipe.trainings}
    if len(reordered) > 1:
        yield "trainings", "some reorder the source and some do not, so they read different texts", "name some of them"
    compared = _compared(recipe, likelihood)
    if likelihood.baseline is not None and likelihood.variant(likelihood.baseline) not in compared:
        there = ", ".join(f"{system}/{training}" for system, training in sorted(compared))
        yield "baseline", f"{likelihood.baseline!r} is not one of the systems", f"there are {there or 'none'}"
    test = recipe.tests.get(likelihood.test)
    if likelihood.swap and test is not None and not any(has_documents(recipe, test, each) for each in recipe.scales):
        what = f"the test {likelihood.test} has no documents, so no sentence stands before another"
        yield "swap", what, "give its corpus `documents`, or leave `swap` out"


def _compared(recipe: Recipe, likelihood: Likelihood) -> set[tuple[str, str]]:
    """System and training of the models that a likelihood scores."""
    return {
        (system, training)
        for runs in recipe.runs
        if {*runs.scales} & {*likelihood.scales}
        for system in runs.systems
        for training in runs.trainings
        if likelihood.includes(system, training)
    }


def unshiftable(recipe: Recipe) -> Iterator[Fault]:
    """The faults of likelihoods that shift the positions of systems whose architecture has no positions."""
    from posnmt.model.base import TranslationModel  # imports PyTorch
    from posnmt.model.registry import architecture
    from posnmt.study.trainings import model_section

    for name, likelihood in recipe.likelihoods.items():
        systems = dict.fromkeys(system for system, _ in sorted(_compared(recipe, likelihood)))
        for system in systems if likelihood.shift is not None else ():
            kinds = {model_section(recipe, scale, system).get("architecture", "transformer") for scale in recipe.scales}
            if any(architecture(kind).shift is TranslationModel.shift for kind in kinds):
                what = f"{system} has no positions that could be shifted"
                yield ("likelihoods", name, "shift"), what, "leave `shift` out, or name the other `systems`"


def has_documents(recipe: Recipe, test: Test, scale: Scale) -> bool:
    """Whether a test may have document ids at a scale; for a public corpus this is unknown until it is fetched."""
    if test.join is not None or test.swap or lacks(test.corpus, scale):
        return False
    texts = recipe.scales[scale].texts(at(test.corpus, scale))
    return bool(texts) and all(text.public is not None or text.documents is not None for text in texts)


def unpredicted(recipe: Recipe) -> Iterator[Fault]:
    """The faults of comparisons of losses: the likelihood lacks what they compare, or its text cannot decide them."""
    for number, claim in enumerate(recipe.claims):
        for keys, each in claim.comparisons():
            if each.measure == LOSS:
                for what, todo in _faults_of_loss(recipe, claim, each):
                    yield ("claims", str(number), *keys), what, todo


def _faults_of_loss(recipe: Recipe, claim: Claim, comparison: Comparison) -> Iterator[tuple[str, str]]:
    """What is wrong with a comparison of losses, and what to do."""
    name, text_class = comparison.analysis, comparison.class_ or ""
    if (likelihood := recipe.likelihoods.get(name)) is None:
        near = nearest(name, recipe.likelihoods)
        there = f"there are {', '.join(recipe.likelihoods) or 'none'}"
        yield f"likelihoods has no {name!r}", f"did you mean {near!r}?" if near else there
        return
    systems = [recipe.variant(side.system) for side in comparison.sides]
    compared = _compared(recipe, likelihood)
    there = ", ".join("/".join(each) for each in sorted(compared)) or "none"
    for system, training in systems:
        if (system, training) not in compared and system in recipe.systems and training in recipe.trainings:
            yield f"the likelihood {name} does not score {system}/{training}", f"it scores {there}"
    scales = [scale for scale in claim.scales if scale in recipe.scales and scale not in likelihood.scales]
    test = recipe.tests.get(likelihood.test)
    joined = f"the test {likelihood.test} has joined lines, where losses may be those of a second sentence"
    found: list[tuple[object, str, str]] = [
        (len(set(systems)) < len(systems), "a system is compared with itself", "name another one"),
        (scales, f"the likelihood {name} is not computed at scale {', '.join(scales)}", "give the claim its `scales`"),
        (text_class == "D2" and not likelihood.swap, f"the likelihood {name} has no D2", "add `swap: true` to it"),
        (
            text_class.startswith("D3") and likelihood.shift is None,
            f"the likelihood {name} has no D3", "add `shift` to it, the number that positions begin at",
        ),
        (test is not None and test.join, joined, "compare losses on sentences as they are"),
    ]  # fmt: skip
    yield from ((what, todo) for wrong, what, todo in found if wrong)
