"""What a study could find: against whole studies with a planted difference, and with none."""

from itertools import pairwise

import numpy as np
import pytest

from posnmt.study import contrast
from posnmt.study.blocks import units
from posnmt.study.claims import Expected
from posnmt.study.foreseen import Sample, differences
from posnmt.study.load import load
from posnmt.study.pairs import compared, corrected_level, corrected_rules
from posnmt.study.power import ENOUGH, detectable
from posnmt.study.recipe import Recommend
from posnmt.study.verdict import Rules
from tests.support.recipe_case import SMALL, written
from tests.support.verdict_case import drawn, resolve

STUDIES = 120
LENGTHS = np.tile([20, 60], 75)  # half of them are longer than the longest of training, 49
VARIES = {"spread": 8.0, "interaction": 15.0, "deviation": 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3])
def test_a_planted_difference_is_found_as_often_as_was_estimated_and_none_where_there_is_none(seeds, monkeypatch):
    """On longer sentences, with intervals that are corrected for both lengths."""
    monkeypatch.setattr(contrast, "SAMPLES", 150)
    section = Recommend(analyses=["test"], lengths=["seen", "longer"])
    asked = section.comparisons("b", "a")["test, longer"]
    expected = Expected(effect=0.0, sentences=[75], **VARIES)
    grouped = units({resolve(name): range(seeds) for name in "ab"}, {})
    smallest = detectable(asked, expected, grouped, resolve, corrected_level(section, 2))
    section = section.model_copy(update={"measure": "length_difference"})  # which stands for a metric
    rules = corrected_rules(section, 2, Rules(resolve, "small"))
    generator = np.random.default_rng(7)
    shares = []
    for effect in (smallest, 0.0):
        words = []
        for _ in range(STUDIES):
            evidence = drawn(
                generator, {"a": 0.0, "b": effect}, LENGTHS, seeds, over_seeds=VARIES["deviation"],
                over_sentences=VARIES["spread"] / 2**0.5, of_each=VARIES["interaction"],
            )  # fmt: skip
            words.append(compared(section, ["b", "a"], {"test": evidence}, rules)["b", "a"]["test, longer"].word)
        shares.append((words.count("supported") / STUDIES, words.count("contradicted") / STUDIES))
    (found, wrong), false = shares
    assert found == pytest.approx(ENOUGH, abs=0.11)  # three standard deviations of 120 studies
    assert wrong == 0
    assert sum(false) <= 0.025 + 3 * (0.025 * 0.975 / STUDIES) ** 0.5


def foreseen(tmp_path, seeds, sentences, documents=40.0):
    tree = {**SMALL, "recommend": {"analyses": ["test"], "lengths": ["longer"], "measure": "chrf"}}
    recipe = load(written(tmp_path, tree), (f"scales.smoke.seeds={seeds}",))
    return differences(recipe, "smoke", {"longer": Sample(sentences, documents)})["test, longer"]


def test_more_seeds_sentences_and_documents_find_less(tmp_path):
    by_seeds = [foreseen(tmp_path, seeds, 300) for seeds in (2, 3, 5, 9)]
    by_sentences = [foreseen(tmp_path, 3, sentences) for sentences in (50, 300, 5000)]
    by_documents = [foreseen(tmp_path, 3, 300, documents) for documents in (3, 10, 100)]
    for sizes in (by_seeds, by_sentences, by_documents):
        assert all(more > less > 0 for more, less in pairwise(sizes))


def test_nothing_is_found_by_one_seed_few_sentences_or_one_document(tmp_path):
    assert foreseen(tmp_path, 1, 300) is None
    assert foreseen(tmp_path, 3, 19) is None
    assert foreseen(tmp_path, 3, 300, documents=1.0) is None
