"""All figures of likelihood by position: the same as by loops, and unchanged by what all systems share."""

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.designs import of_tokens
from posnmt.evaluation.analyse.length_effects import D1, FILTERS, length_effects
from tests.support.losses_case import EXPOSURE, random_losses


@pytest.fixture(scope="module")
def losses():
    return random_losses(sentences=500, documents=40, beyond={"b": 0.4})


@pytest.fixture(scope="module")
def effects(losses):
    return length_effects(losses)


def values(losses, system, chosen):
    """The mean over seeds of the mean loss of the subwords `chosen` by (position, source length)."""
    keep = [
        place
        for place, (s, p) in enumerate(zip(losses.sentence.tolist(), losses.position.tolist(), strict=True))
        if chosen(p, int(losses.source_lengths[s]))
    ]
    rows = [row for row, model in enumerate(losses.models) if model.system == system]
    return fmean([fmean(losses.losses[row, keep].tolist()) for row in rows])


def zone(position):
    return "beyond" if position >= 28 else "sparse" if EXPOSURE[position] < 0.1 else "dense"


def test_zones_and_sources_are_those_of_loops(losses, effects):
    assert [each.bin for each in effects.zones] == ["dense", "sparse", "beyond"]
    assert len(effects.by_source) == 6
    for each in effects.zones:
        one, other = (values(losses, name, lambda p, _, each=each: zone(p) == each.bin) for name in "ab")
        assert each.levels["a"].value == pytest.approx(one)
        assert each.differences["b"].value == pytest.approx(other - one)
    for each in effects.by_source:
        name, source = each.bin.split(", ")
        expected = values(
            losses, "b", lambda p, n, name=name, source=source: zone(p) == name and (n > 28) == ("beyond" in source)
        )
        assert each.levels["b"].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("positions", lambda position, _: position),
        ("source_lengths", lambda _, source: source),
        ("distances", lambda position, _: position - 27),
    ],
)
def test_curves_hold_every_subword_once(losses, effects, name, place):
    curve = getattr(effects, name)
    assert len(curve) > 1
    counted = 0
    for each in curve:
        first, last = map(int, each.bin.split("-"))
        assert each.levels["a"].value == pytest.approx(
            values(losses, "a", lambda p, n, first=first, last=last: first <= place(p, n) <= last)
        )
        sentences = {
            s
            for s, p in zip(losses.sentence.tolist(), losses.position.tolist(), strict=True)
            if first <= place(p, int(losses.source_lengths[s])) <= last
        }
        assert each.support.sentences == len(sentences)
        assert each.support.documents == len({losses.documents[s] for s in sentences})
        counted += sum(
            first <= place(p, int(losses.source_lengths[s])) <= last
            for s, p in zip(losses.sentence.tolist(), losses.position.tolist(), strict=True)
        )
    assert counted == (losses.position >= 28).sum() if name == "distances" else len(losses.sentence)


def test_bins_are_marked_by_what_training_has(losses, effects):
    marks = {each.bin: each.training for each in effects.positions}
    assert [marks[label] for label in ("0-9", "10-19", "20-29", "30-39")] == ["seen", "seen", "partly unseen", "unseen"]
    exposure = [each.exposure for each in effects.positions]
    assert exposure[0] == pytest.approx(EXPOSURE[:10].mean(), abs=0.02), "all but the shortest sentences have these"
    assert exposure[3] == 0
    marks = {each.bin: each.training for each in length_effects(replace(losses, target_exposure=np.ones(30))).positions}
    assert (marks["20-29"], marks["30-39"]) == ("seen", "unseen"), "position 30 is the 31st subword"
    marks = {each.bin: each.training for each in effects.source_lengths}
    assert (marks["10-19"], marks["20-29"], marks["30-39"]) == ("seen", "partly unseen", "unseen")


def test_no_bin_is_below_the_minima_where_there_is_another(losses, effects):
    for curve in (effects.positions, effects.source_lengths, effects.distances, effects.same_positions):
        assert all(each.support.sentences >= 50 and each.support.documents >= 10 for each in curve)
    assert len(length_effects(random_losses(sentences=20)).positions) == 1


def test_the_same_positions_under_both_kinds_of_sources(losses, effects):
    assert effects.same_positions
    for each in effects.same_positions:
        first, last = map(int, each.bin.split("-"))
        unseen, seen = (
            values(losses, "a", lambda p, n, f=first, to=last, s=side: f <= p <= to and (n <= 28) == s)
            for side in (False, True)
        )
        assert each.levels["a"].value == pytest.approx(unseen - seen)


def test_positions_with_too_few_longer_sources_are_not_compared(losses):
    lengths = np.where(np.arange(500) < 40, 40, 20)
    assert length_effects(replace(losses, source_lengths=lengths)).same_positions == []


def test_ends_are_by_sentence_and_in_no_bin(losses, effects):
    seen = [s for s, length in enumerate(losses.source_lengths.tolist()) if length <= 28]
    at_end, _, before, unseen = effects.ends
    assert at_end.levels["a"].value == pytest.approx(fmean(fmean(losses.ends[row, seen].tolist()) for row in range(3)))
    assert before.levels["b"].value == pytest.approx(losses.early_ends[3:, seen].mean())
    assert unseen.support.sentences == len(losses.source_lengths) - len(seen)
    other = length_effects(replace(losses, ends=losses.ends + 1, early_ends=losses.early_ends / 2))
    assert [each.levels for each in other.rows[:-4]] == [each.levels for each in effects.rows[:-4]]


def test_ends_with_shifted_positions_are_of_the_same_sentences(losses):
    holes = losses.ends + 1
    holes[4, ::3] = np.nan
    shifted = {"both +40": replace(losses, ends=holes, early_ends=losses.early_ends / 2)}
    at_end, at_end_shifted, before, before_shifted = length_effects(losses, shifted=shifted).shifted_ends
    kept = np.arange(500) % 3 > 0
    assert [each.bin for each in (at_end, at_end_shifted)] == ["shift none", "shift both +40"]
    assert at_end.support.sentences == at_end_shifted.support.sentences == kept.sum()
    assert at_end.levels["b"].value == pytest.approx(losses.ends[3:, kept].mean())
    assert at_end_shifted.levels["b"].value == pytest.approx(losses.ends[3:, kept].mean() + 1)
    assert before_shifted.levels["a"].value == pytest.approx(before.levels["a"].value / 2)
    assert length_effects(losses).shifted_ends == []


def test_bits_per_character(losses, effects):
    bits = losses.losses[3:].sum(axis=1) / np.log(2) / losses.characters.sum()
    assert effects.overall[1].levels["b"].value == pytest.approx(bits.mean())
    assert effects.overall[0].levels["b"].value == pytest.approx(losses.losses[3:].mean())


def test_what_all_systems_share_changes_no_difference_and_no_interval(losses, effects):
    """Words that are hard to predict, and documents that are, are the same for all."""
    generator = np.random.default_rng(1)
    hard = generator.gamma(1, 1, len(losses.sentence)) + generator.normal(0, 3, 40)[losses.documents][losses.sentence]
    other = length_effects(replace(losses, losses=losses.losses + hard))
    kept = [name for name in effects.designs if name not in FILTERS]  # what a filter leaves out depends on the words
    pairs = [*zip(effects.positions, other.positions, strict=True)]
    pairs += [(effects.designs[name], other.designs[name]) for name in kept]
    for one, two in pairs:
        assert one.levels["a"].value != two.levels["a"].value
        assert one.differences["b"].value == pytest.approx(two.differences["b"].value, abs=1e-9)
        assert one.differences["b"].error == pytest.approx(two.differences["b"].error, rel=1e-6)


def test_order_and_numbers_of_documents_do_not_matter(losses, effects):
    order = np.random.default_rng(2).permutation(len(losses.sentence))
    other = length_effects(replace(of_tokens(losses, order), documents=90 - 2 * losses.documents))
    for one, two in zip(effects.rows, other.rows, strict=True):
        assert (one.axis, one.bin, one.support.sentences) == (two.axis, two.bin, two.support.sentences)
        assert one.differences["b"].interval() == pytest.approx(two.differences["b"].interval(), rel=1e-6, abs=1e-9)


def test_another_baseline_turns_the_signs(losses, effects):
    other = length_effects(losses, baseline="b")
    assert other.baseline == "b"
    one, two = (each.designs[D1].differences[name] for each, name in ((effects, "b"), (other, "a")))
    assert one.value == pytest.approx(-two.value)
    assert one.error == pytest.approx(two.error)
    with pytest.raises(UserError, match="no system 'c'"):
        length_effects(losses, baseline="c")


def test_levels_are_means_over_seeds(losses, effects):
    for each in (*effects.zones, *effects.designs.values()):
        assert each.levels["a"].seeds == each.differences["b"].seeds == 3


# --- what a model has no probability for


def test_undefined_subwords_are_left_out_for_all_and_counted(losses):
    undefined = losses.position >= 35
    holes = losses.losses.copy()
    holes[4, undefined] = np.nan
    gap = replace(losses, losses=holes)
    effects = length_effects(gap, baseline="a")
    rest = length_effects(of_tokens(losses, ~undefined))
    assert effects.defined == {"a": 1, "b": pytest.approx(1 - undefined.mean())}
    assert any("b has probabilities for" in note for note in effects.notes)
    assert effects.designs[D1].differences["b"] == rest.designs[D1].differences["b"]
    assert [each.bin for each in effects.positions] == [each.bin for each in rest.positions]
    with pytest.raises(UserError, match="no subword"):
        length_effects(replace(losses, losses=np.full_like(losses.losses, np.nan)))


def test_bits_per_character_are_of_whole_sentences(losses):
    holes = losses.losses.copy()
    holes[4, losses.position >= 35] = np.nan
    effects = length_effects(replace(losses, losses=holes))
    short = losses.target_lengths <= 35
    bits = losses.losses[0, short[losses.sentence]].sum() / np.log(2) / losses.characters[short].sum()
    assert effects.overall[1].support.sentences == short.sum()
    first = length_effects(replace(losses, losses=holes[[0, 4]], models=[losses.models[0], losses.models[4]],
                                   ends=losses.ends[[0, 4]], early_ends=losses.early_ends[[0, 4]]))  # fmt: skip
    assert first.overall[1].levels["a"].value == pytest.approx(bits)


def test_the_swap_and_the_shift_may_be_undefined_at_other_subwords(losses):
    long = losses.losses + 0.25
    long[2, losses.sentence % 5 == 0] = np.nan
    shifted = losses.losses + 0.5
    shifted[1, losses.sentence % 7 == 0] = np.nan
    effects = length_effects(
        losses, losses, replace(losses, losses=long), {"source +40": replace(losses, losses=shifted)}
    )
    swapped, shift = effects.designs["D2"], effects.designs["D3 source +40"]
    assert swapped.levels["b"].value == pytest.approx(0.25)
    assert swapped.support.sentences == (np.arange(500) % 5 > 0).sum()
    assert shift.levels["b"].value == pytest.approx(0.5)
    assert shift.differences["b"].value == pytest.approx(0, abs=1e-9)
    assert shift.support.sentences == (np.arange(500) % 7 > 0).sum()


# --- what cannot be computed is stated


def test_without_long_sentences_there_is_no_d1():
    effects = length_effects(random_losses(longest=20))
    assert D1 not in effects.designs
    assert "D5" not in effects.designs
    assert [each.bin for each in effects.zones] == ["dense"]
    assert effects.distances == []
    assert any("no D1" in note for note in effects.notes)
    assert any("no D2" in note for note in effects.notes)


def test_seeds_without_a_partner_are_named():
    effects = length_effects(random_losses((("a", (1, 2, 3)), ("b", (1, 2)), ("c", (7,)))))
    assert effects.zones[0].differences["b"].seeds == 2
    assert effects.zones[0].levels["a"].seeds == 3
    assert [note for note in effects.notes if "seed" in note] == [
        "b and a are compared by the seeds that both have; without seed 3.",
        "c and a have no seed in common: their means are compared as if they were two models.",
    ]


def test_one_system_has_figures_and_no_differences():
    effects = length_effects(random_losses((("a", (1, 2)),)))
    assert all(each.differences == {} and set(each.levels) == {"a"} for each in effects.rows)
