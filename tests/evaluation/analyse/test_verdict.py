"""The verdict: which sentences it rests on, what leads, and how it is said."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu

from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.bins import TrainedLengths, bins_of_width
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.analyse.significance import approximate_randomisation
from posnmt.evaluation.analyse.verdict import _sentence, verdict

WORDS = ["the", "old", "man", "sees", "a", "big", "dog", "near", "his", "small", "red", "house", "today"]
QUICK = Resampling(samples=500)
BINS = bins_of_width(10, TrainedLengths())


@pytest.fixture
def files(tmp_path):
    """40 sources of 4 and 40 of 8 words; `good` is right, `late` breaks long ones, `bad` breaks all, `same` is good."""
    sources, good, late, bad = [], [], [], []
    for number in range(80):
        length = 4 if number % 2 else 8
        reference = [WORDS[(number + place) % len(WORDS)] for place in range(length)]
        broken = [word if place % 2 else "x" for place, word in enumerate(reference)]
        sources.append(" ".join("w" * length))
        good.append(" ".join(reference))
        late.append(" ".join(reference if length == 4 else broken))
        bad.append(" ".join(broken))
    texts = {"source": sources, "reference": good, "good": good, "late": late, "bad": bad, "same": good}
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def found(folder, *names, **settings):
    outputs = {name: folder / name for name in names}
    asked = Settings(**{"metrics": ("bleu",), "resampling": QUICK, **settings})
    return analyse(folder / "source", folder / "reference", outputs, asked).results["verdict"]


def of_groups(result):
    """What the verdict says of groups of sentences, behind the sentence on length."""
    first = result["by_length"]["sentence"] if result["by_length"] else ""
    assert result["sentence"].startswith(first)
    return result["sentence"].removeprefix(first).strip()


def test_trained_and_longer_sentences_are_measured_as_corpora(files):
    result = found(files, "late", "bad", max_trained_length=5)
    short, longer = result["groups"]
    assert [(each["name"], each["sentences"], each["shortest"], each["longest"]) for each in result["groups"]] == [
        ("trained", 40, 4, 4), ("longer", 40, 8, 8),
    ]  # fmt: skip
    lines = {name: (files / name).read_text().splitlines() for name in ("reference", "bad")}
    for group, rows in ((short, slice(1, None, 2)), (longer, slice(0, None, 2))):
        expected = sacrebleu.corpus_bleu(lines["bad"][rows], [lines["reference"][rows]], force=True).score
        assert group["scores"]["bad"] == pytest.approx(expected)
    assert short["best"] == ["late"]
    assert short["p"]["bad"] < 0.05
    assert (longer["best"], longer["p"]) == (["late", "bad"], {}), "both broke all long sentences"
    first, second = of_groups(result).split(". On ")
    assert first.startswith("On 40 sentences of trained length (4 to 4 words), late has 100.0 BLEU, better than bad (")
    assert second == f"40 longer sentences (8 to 8 words), late and bad each have {longer['scores']['bad']:.1f} BLEU."


@pytest.mark.parametrize(("shortest", "names"), [(1, ["trained", "longer"]), (2, ["trained", "longer", "shorter"])])
def test_an_empty_source_line_is_no_group_of_its_own(shortest, names):
    rows = np.ones((3, 1, 13))
    additive = Additive(rows, {"bleu": slice(0, 10)})
    trained = TrainedLengths(shortest, 5)
    groups = verdict(additive, {"a": [0]}, np.array([0, 4, 9]), trained, "words", QUICK, BINS)["groups"]
    assert [each["name"] for each in groups] == names


def test_scores_that_differ_by_more_than_chance_are_shown_apart():
    group = {"name": "all", "sentences": 5, "shortest": 1, "longest": 9, "best": ["a"], "p": {"b": 0.001, "c": 0.4}}
    group["scores"] = {"a": 0.0412, "b": 0.0189, "c": 0.0401}
    line = _sentence(group, "BLEU", "words", False)
    assert "a has 0.04 BLEU, better than b (0.02) by more than chance, and not clearly better than c (0.04, p" in line
    group["scores"]["b"] = 0.0399
    assert "a has 0.041 BLEU, better than b (0.040)" in _sentence(group, "BLEU", "words", False)
    group["scores"] |= {"a": 31.2, "b": 28.9}
    assert "a has 31.2 BLEU, better than b (28.9)" in _sentence(group, "BLEU", "words", False)


def test_seeds_that_contradict_each_other_are_no_evidence(files):
    """A mean that is ahead by one seed alone is not better in every pair of seeds."""
    for name, source in (("a:1", "good"), ("a:2", "bad"), ("b:1", "late"), ("b:2", "late")):
        (files / name).write_text((files / source).read_text())
    result = found(files, "a:1", "a:2", "b:1", "b:2")
    [group] = result["groups"]
    assert list(group["p"].values()) == [1.0]
    assert "not clearly better than" in result["sentence"]


def test_the_longest_trained_length_is_trained(files):
    assert [each["name"] for each in found(files, "bad", max_trained_length=8)["groups"]] == ["trained"]
    assert [each["name"] for each in found(files, "bad", max_trained_length=7)["groups"]] == ["trained", "longer"]


def test_lengths_that_only_some_trainings_had_are_a_group_of_their_own(files):
    result = found(files, "bad", trained_lengths=[[3, 8], [1, 4], [1, 4]])
    assert [(each["name"], each["shortest"]) for each in result["groups"]] == [("trained", 4), ("partly", 8)]
    assert "On 40 sentences of lengths that not all trainings had (8 to 8 words), bad has" in result["sentence"]
    every = found(files, "bad", trained_lengths=[[2, 4], [3, 4]])["groups"]
    assert [each["name"] for each in every] == ["trained", "longer"]


def test_without_trained_lengths_there_is_one_group(files):
    result = found(files, "bad", "good", "same", "late")
    [group] = result["groups"]
    assert (group["name"], group["sentences"], group["best"]) == ("all", 80, ["good", "same"])
    assert set(group["p"]) == {"bad", "late"}
    assert of_groups(result) == (
        f"On 80 sentences, good and same each have 100.0 BLEU, better than bad ({group['scores']['bad']:.1f}) and late"
        f" ({group['scores']['late']:.1f}) by more than chance."
    )


def test_p_is_corrected_for_the_number_of_pairs():
    generator = np.random.default_rng(1)
    rows = generator.integers(1, 20, (60, 3, 4)).astype(float)
    additive = Additive(rows, {"ter": slice(0, 2)})  # edits, reference words: a lower score is better
    result = verdict(additive, {"a": [0], "b": [1], "c": [2]}, np.arange(1, 61), TrainedLengths(), "words", QUICK, BINS)
    [group] = result["groups"]
    scores = list(group["scores"].values())
    best = int(np.argmin(scores))
    assert group["best"] == ["abc"[best]]
    plain = approximate_randomisation(additive, QUICK.samples, QUICK.seed)["ter"]
    for name, p in group["p"].items():
        assert plain["abc".index(name), best] <= p <= 3 * plain["abc".index(name), best]
    smallest = np.nanmin(plain)
    if smallest in plain[best]:
        assert min(group["p"].values()) == pytest.approx(min(1.0, 3 * smallest))


def test_the_correction_is_the_one_asked_for():
    generator = np.random.default_rng(1)
    additive = Additive(generator.integers(1, 20, (60, 3, 4)).astype(float), {"ter": slice(0, 2)})
    asked = Resampling(samples=QUICK.samples, seed=QUICK.seed, correction="none")
    result = verdict(additive, {"a": [0], "b": [1], "c": [2]}, np.arange(1, 61), TrainedLengths(), "words", asked, BINS)
    plain = approximate_randomisation(additive, QUICK.samples, QUICK.seed)["ter"]
    [group] = result["groups"]
    assert group["p"] == {name: plain["abc".index(name), "abc".index(group["best"][0])] for name in group["p"]}


def test_seeds_are_one_system(files):
    """`good` twice and a worse seed: the mean leads, and yet not every pair of seeds differs."""
    outputs = {"good:1": files / "good", "good:2": files / "late", "bad:1": files / "bad", "bad:2": files / "bad"}
    asked = Settings(metrics=("bleu",), resampling=QUICK, max_trained_length=5)
    results = analyse(files / "source", files / "reference", outputs, asked).results
    short, longer = results["verdict"]["groups"]
    assert short["best"] == longer["best"] == ["good"]
    scores = {system["name"]: system["overall"]["bleu"]["mean"] for system in results["seeds"]["systems"]}
    assert short["scores"].keys() == scores.keys()
    assert short["p"]["bad"] < 0.05 < longer["p"]["bad"], "on long sentences the second seed is as bad"
    assert "good has 100.0 BLEU (means of seeds), better than bad (" in results["verdict"]["sentence"]
    assert "by more than chance in every pair of seeds. On 40 longer" in results["verdict"]["sentence"]


def test_one_system_and_no_tests(files):
    assert found(files, "good")["sentence"] == "On 80 sentences, good has 100.0 BLEU."
    untested = found(files, "good", "bad", resampling=Resampling(samples=0))
    assert untested["groups"][0]["p"] is None
    assert untested["sentence"] == "On 80 sentences, good has 100.0 BLEU, the best score of 2; nothing was tested."


def test_many_systems_are_counted(files):
    for number in range(7):
        (files / f"copy{number}").write_text((files / "bad").read_text())
    result = found(files, "good", *(f"copy{number}" for number in range(7)), resampling=Resampling(samples=2000))
    assert "better than 7 others by more than chance" in result["sentence"]


def test_a_length_below_training_is_a_group(files):
    result = found(files, "good", min_trained_length=5, max_trained_length=20)
    assert [each["name"] for each in result["groups"]] == ["trained", "shorter"]
    assert "On 40 shorter sentences (4 to 4 words), good has 100.0 BLEU." in result["sentence"]
