"""The intervals of likelihood by position, against plain loops and by simulation."""

import math
from statistics import fmean, variance

import numpy as np
import pytest

from posnmt.evaluation.analyse.crossed import Estimate, crossed, difference_of, level_of, variance_over_seeds
from posnmt.evaluation.analyse.jackknife import Statistic
from posnmt.evaluation.analyse.losses import Scored
from posnmt.evaluation.analyse.seeds import t_quantile
from posnmt.evaluation.analyse.zones import Support

ENOUGH = Support(400, 40, 30.0)


def jackknife(values):
    """The variance by the formula."""
    centre = fmean(values)
    return (len(values) - 1) / len(values) * math.fsum((value - centre) ** 2 for value in values)


def case(seeds, documents=12, scale=0.3, common=1.0, seed=1):
    """D_r and D_r without each document, of random documents."""
    generator = np.random.default_rng(seed)
    effects = common * generator.normal(size=(documents, 1)) + generator.normal(size=(documents, seeds))
    whole = scale * generator.normal(size=seeds) + effects.mean(axis=0)
    without = whole + (effects.mean(axis=0) - effects) / (documents - 1)
    return whole, without


@pytest.mark.parametrize(("scale", "common"), [(0.3, 1.0), (0.0, 0.0), (5.0, 0.1)])
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_variance_is_that_of_the_formula(seeds, scale, common):
    whole, without = case(seeds, scale=scale, common=common)
    centre = fmean(whole)
    over_documents = jackknife([fmean(row) for row in without.tolist()])
    over_seeds = math.fsum((value - centre) ** 2 for value in whole) / (seeds * (seeds - 1))
    both = math.fsum(
        jackknife([float(row[place]) - fmean(row.tolist()) for row in without]) for place in range(seeds)
    ) / (seeds * (seeds - 1))
    total = max(over_documents + over_seeds - both, over_documents, over_seeds)
    estimate = crossed(whole, without, ENOUGH)
    assert estimate.value == pytest.approx(centre)
    assert estimate.parts == pytest.approx((over_documents, over_seeds, both))
    assert estimate.variance == pytest.approx(total)
    freedom = total**2 / (over_documents**2 / 29 + over_seeds**2 / (seeds - 1))
    assert estimate.freedom == pytest.approx(freedom)
    low, high = estimate.interval()
    assert high - centre == pytest.approx(centre - low) == pytest.approx(t_quantile(0.975, freedom) * total**0.5)


def test_one_seed_has_documents_alone():
    whole, without = case(1)
    estimate = crossed(whole, without, ENOUGH)
    assert estimate.seeds == 1
    assert estimate.variance == pytest.approx(jackknife(without[:, 0].tolist()))
    assert estimate.freedom == pytest.approx(29)


def test_what_cannot_be_estimated_has_no_interval():
    whole, without = case(2)
    undefined = without.copy()
    undefined[3, 1] = np.nan
    for estimate in (crossed(whole, undefined, ENOUGH), crossed(whole, without, Support(400, 40, 1.9))):
        assert math.isnan(estimate.variance)
        assert estimate.interval() is None
        assert estimate.sign == 0
    same = crossed(np.ones(2), np.ones((4, 2)), ENOUGH)
    assert same.interval() == (1, 1)
    assert same.sign == 1


@pytest.mark.parametrize(
    ("value", "support", "sign"),
    [(3, ENOUGH, 1), (-3, ENOUGH, -1), (1.9, ENOUGH, 0), (3, Support(99, 40, 30.0), 0), (3, Support(400, 40, 9.0), 0)],
)
def test_a_sign_is_decided_beyond_the_interval_and_with_enough_documents(value, support, sign):
    assert Estimate(value, 1.0, 60.0, support, 3).sign == sign


def test_the_moderated_variance_by_plain_loops():
    generator = np.random.default_rng(4)
    figures = generator.normal(size=(5, 3)) + 2 * generator.normal(size=(1, 3))
    table = figures.tolist()
    rows, columns = [fmean(row) for row in table], [fmean(column) for column in zip(*table, strict=True)]
    square = sum(
        (table[s][r] - rows[s] - columns[r] + fmean(rows)) ** 2 for s in range(5) for r in range(3)
    ) / (4 * 2)  # fmt: skip
    for pair in [(0, 1), (3, 2)]:
        own = variance([table[pair[0]][r] - table[pair[1]][r] for r in range(3)]) / 3
        expected = max((4 * 2 * square / 3 + 2 * own) / 6, own)
        assert variance_over_seeds(figures, pair) == (pytest.approx(expected), 6)


def statistic(models, documents=12, seed=2):
    generator = np.random.default_rng(seed)
    whole = generator.normal(size=len(models))
    without = whole + generator.normal(0, 0.1, (documents, len(models)))
    return Statistic(whole, without, np.ones(documents, dtype=int), 200)


def scored(text):
    return [Scored(name, name[0], int(name[1:])) for name in text.split()]


def test_systems_are_compared_by_the_seeds_that_both_have():
    models = scored("a1 b3 a2 a3 b2 b9")
    each = statistic(models)
    estimate = difference_of(each, models, "a", "b")
    expected = crossed(
        each.whole[[2, 3]] - each.whole[[4, 1]], each.without[:, [2, 3]] - each.without[:, [4, 1]], each.support
    )
    assert estimate == expected
    assert level_of(each, models, "a") == crossed(each.whole[[0, 2, 3]], each.without[:, [0, 2, 3]], each.support)


def test_without_a_common_seed_the_models_are_compared_and_no_schemes():
    models = scored("a1 a2 b3")
    each = statistic(models)
    estimate = difference_of(each, models, "a", "b")
    assert estimate.seeds == 1
    assert estimate.value == pytest.approx(each.whole[:2].mean() - each.whole[2])
    assert estimate.variance == pytest.approx(jackknife((each.without[:, :2].mean(1) - each.without[:, 2]).tolist()))


def test_systems_with_the_seeds_share_their_variance_where_they_are_enough():
    """Three seeds of four systems; two seeds of four, and three of three, have too few degrees of freedom."""
    models = scored("a1 a2 a3 b1 b2 b3 c1 c2 c3 d1 d2 d3 e1")
    each = statistic(models)
    figures = each.whole[:12].reshape(4, 3)
    of_documents, of_seeds, _ = difference_of(each, models, "a", "c").parts
    assert of_seeds == pytest.approx(variance_over_seeds(figures, (0, 2))[0])
    own = crossed(each.whole[:3] - each.whole[6:9], each.without[:, :3] - each.without[:, 6:9], each.support)
    assert of_documents == own.parts[0]
    assert of_seeds != own.parts[1]
    two = [place for place, model in enumerate(models) if model.seed < 3]
    for chosen in (range(9), two):
        some = list(chosen)
        fewer = Statistic(each.whole[some], each.without[:, some], each.weights, 200)
        of_pair = [[place for place in some if models[place].system == name] for name in "ac"]
        alone = crossed(
            each.whole[of_pair[0]] - each.whole[of_pair[1]],
            each.without[:, of_pair[0]] - each.without[:, of_pair[1]],
            each.support,
        )
        assert difference_of(fewer, [models[place] for place in some], "a", "c") == alone
