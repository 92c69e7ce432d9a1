"""Bootstrap intervals: percentiles, shared samples, bins, and what one knows of them beforehand."""

import numpy as np
import pytest
import sacrebleu

from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.intervals import percentile_interval, resampled_measures
from tests.support.metrics_case import texts
from tests.support.table_case import table

CORPUS_SCORE = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf, "ter": sacrebleu.corpus_ter}


@pytest.fixture(scope="module")
def texts_of_two():
    references, first = texts(40, seed=12)
    return references, [first, texts(40, seed=13)[1]]


def test_resampled_measures_are_those_of_the_sampled_text(texts_of_two):
    """Each sample's text, written out and scored by sacreBLEU."""
    references, systems = texts_of_two
    groups = np.array([len(line) % 3 for line in references])
    found = resampled_measures(table(references, systems), groups, 4, 6, 7)
    order = np.argsort(groups, kind="stable")
    drawn = order[np.random.default_rng([7, 0]).integers(0, 40, (6, 40))]
    for sample in range(6):
        for place, wanted in enumerate([{0, 1, 2}, {0}, {1}, {2}]):
            rows = [row for row in drawn[sample] if groups[row] in wanted]
            chosen = [references[row] for row in rows]
            for system, lines in enumerate(systems):
                output = [lines[row] for row in rows]
                for metric, corpus_score in CORPUS_SCORE.items():
                    expected = corpus_score(output, [chosen]).score
                    assert found[metric][sample, place, system] == pytest.approx(expected, abs=1e-9)
                lengths = [sum(len(line.split()) for line in side) for side in (output, chosen)]
                assert found["length_ratio"][sample, place, system] == pytest.approx(lengths[0] / lengths[1])
                assert found["length_difference"][sample, place, system] == pytest.approx(
                    (lengths[0] - lengths[1]) / len(rows)
                )
    assert np.isnan(found["bleu"][:, 4]).all(), "a bin without sentences"


def test_percentiles_are_numpy_s():
    values = np.random.default_rng(1).normal(size=(1000, 3, 2))
    lower, upper = percentile_interval(values)
    np.testing.assert_allclose(lower, np.percentile(values, 2.5, axis=0), rtol=1e-12)
    np.testing.assert_allclose(upper, np.percentile(values, 97.5, axis=0), rtol=1e-12)
    values[::3, 1, 1] = np.nan
    lower, upper = percentile_interval(values, 0.8)
    np.testing.assert_allclose(lower, np.nanpercentile(values, 10, axis=0), rtol=1e-12)
    np.testing.assert_allclose(upper, np.nanpercentile(values, 90, axis=0), rtol=1e-12)


def test_the_interval_of_negative_values_is_exactly_the_negative_interval():
    """So a difference has one interval, whichever of the two systems comes first."""
    generator = np.random.default_rng(4)
    for samples in (2, 59, 60, 1000):
        values = generator.normal(size=(samples, 20)) * generator.choice([1e-3, 1, 1e5], 20)
        values[generator.random(values.shape) < 0.1] = np.nan
        values[:, 0] = 0
        lower, upper = percentile_interval(values)
        negative_lower, negative_upper = percentile_interval(-values)
        np.testing.assert_array_equal(negative_lower, -upper)
        np.testing.assert_array_equal(negative_upper, -lower)
        assert not np.signbit([lower[0], upper[0]]).any(), "no -0.0"


def test_without_values_there_is_no_interval():
    lower, upper = percentile_interval(np.full((10, 2), np.nan))
    assert np.isnan(lower).all()
    assert np.isnan(upper).all()


def test_the_interval_of_a_mean_is_that_of_theory():
    """The mean length difference of N sentences has the standard error deviation / sqrt(N)."""
    generator = np.random.default_rng(2)
    reference = np.full(2500, 20)
    output = reference + generator.normal(0, 4, 2500).round().astype(int)
    additive = Additive.of({}, [output], reference)
    found = resampled_measures(additive, np.zeros(2500, int), 1, 4000, 3)["length_difference"][:, 0]
    (lower,), (upper,) = percentile_interval(found)
    difference = output - reference
    error = difference.std() / 50
    assert lower == pytest.approx(difference.mean() - 1.96 * error, abs=0.1 * error)
    assert upper == pytest.approx(difference.mean() + 1.96 * error, abs=0.1 * error)


def test_one_sentence_has_an_interval_of_one_point(texts_of_two):
    references, systems = texts_of_two
    row = next(row for row, line in enumerate(systems[0]) if len(line) > 20)
    additive = table([references[row]], [[lines[row]] for lines in systems])
    for found in resampled_measures(additive, np.zeros(1, int), 1, 20, 1).values():
        assert (found == found[:1]).all()
