"""Several seeds of a system: which outputs belong together, mean and spread, Welch's test."""

import math

import pytest

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.seeds import seed_groups, seed_results, spread, t_tails, welch
from posnmt.metrics.registry import METRICS


def test_names_with_a_seed_belong_together():
    names = ["a:1", "b", "a:2", "c:1", "my: system:x", "my: system:y", ":1", ":2", "d:", "e:", "a:3"]
    assert seed_groups(names) == {"a": ["a:1", "a:2", "a:3"], "my: system": ["my: system:x", "my: system:y"]}
    assert seed_groups(["a", "b"]) == {}
    assert seed_groups(["a", "a:1"]) == {}


def test_a_system_may_not_have_the_name_of_its_seeds():
    with pytest.raises(UserError, match="a:1, a:2 are seeds of 'a', and another output is called 'a' itself"):
        seed_groups(["a:1", "a", "a:2"])


def test_spread_by_hand():
    assert spread([1, 2, 6]) == {"mean": 3, "deviation": pytest.approx(math.sqrt(7)), "lowest": 1, "highest": 6}
    assert set(spread([1, None]).values()) == {None}


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    [
        (0, 1, 1), (12.706204736, 1, 0.05), (63.656741162, 1, 0.01), (4.302652730, 2, 0.05), (2.776445105, 4, 0.05),
        (-2.776445105, 4, 0.05), (3.169272673, 10, 0.01), (2.042272456, 30, 0.05),
    ],
)  # fmt: skip
def test_t_tails_are_those_of_the_tables(t, freedom, p):
    assert t_tails(t, freedom) == pytest.approx(p, rel=1e-8)


@pytest.mark.parametrize("t", [0.3, 2.0, 40.0])
def test_t_tails_in_closed_form(t):
    assert t_tails(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), rel=1e-9)
    assert t_tails(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-9)


@pytest.mark.parametrize("freedom", [0.25, 0.6, 2.7])
def test_t_tails_between_whole_degrees(freedom):
    """Against the sum of small steps of the density."""
    t, steps = 1.5, 200_000
    constant = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    inside = sum(
        constant * (1 + ((step + 0.5) * t / steps) ** 2 / freedom) ** (-(freedom + 1) / 2) for step in range(steps)
    )
    assert t_tails(t, freedom) == pytest.approx(1 - 2 * inside * t / steps, rel=1e-8)


def test_welch_by_hand():
    # equal sizes and variances: Student's t with 4 degrees, t = 3 / sqrt(1/3 + 1/3)
    t = 3 / math.sqrt(2 / 3)
    assert welch([1, 2, 3], [4, 5, 6]) == pytest.approx(t_tails(t, 4))
    assert welch([1, 2, 3], [1, 2, 3]) == pytest.approx(1)
    # one side varies alone: its own degrees of freedom
    assert welch([5, 5], [1, 2, 3]) == pytest.approx(t_tails(3 / math.sqrt(1 / 3), 2))
    assert welch([5, 5], [4, 4]) is None
    assert welch([0.7] * 3, [2.39] * 3) is None, "though the mean of three times 0.7 is not 0.7"


def system(name, bleu, ter):
    return {"name": name, "overall": {"n": 9, "bleu": bleu, "ter": ter}, "bins": [{"n": 0, "bleu": None, "ter": ter}]}


def test_results_of_seeds():
    systems = [
        system("a:1", 20.0, 60.0), system("b:1", 30.0, 50.0), system("a:2", 20.5, 60.5), system("b:2", 30.5, 50.5),
        system("c", 1.0, 1.0), system("d:1", 25.0, 55.0), system("d:2", 25.0, 55.0),
    ]  # fmt: skip
    groups = seed_groups([each["name"] for each in systems])
    found = seed_results(groups, systems, {name: METRICS[name] for name in ("bleu", "ter")}, "bonferroni")
    assert [each["name"] for each in found["systems"]] == ["a", "b", "d"]
    first = found["systems"][0]
    assert first["outputs"] == ["a:1", "a:2"]
    assert first["overall"]["bleu"]["mean"] == 20.25
    assert set(first["overall"]) == {"bleu", "ter"}
    assert first["bins"][0]["bleu"]["mean"] is None
    for metric in ("bleu", "ter"):  # fewer edits are better
        test = found["welch"][metric]
        assert test["p"][0][1] == test["p"][1][0] == pytest.approx(t_tails(10 / math.sqrt(0.125), 2))
        assert test["corrected"][0][1] == pytest.approx(3 * test["p"][0][1])
        assert [test["marks"][0][1], test["marks"][1][0]] == ["<<", ">>"]
        assert abs(test["differences"][1][0]) == 10
    assert seed_results({}, systems, {"bleu": METRICS["bleu"]}, "none") is None


def test_the_order_of_seeds_changes_no_bit():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last bit."""
    scores = {"a:1": 0.1, "a:2": 0.2, "a:3": 0.3, "b:1": 0.7, "b:2": 0.9}
    systems = [{"name": name, "overall": {"n": 1, "bleu": score}, "bins": []} for name, score in scores.items()]
    found = [
        seed_results({"a": names, "b": ["b:1", "b:2"]}, systems, {"bleu": METRICS["bleu"]}, "none")
        for names in (["a:1", "a:2", "a:3"], ["a:3", "a:2", "a:1"])
    ]
    assert found[0]["welch"] == found[1]["welch"]
