"""The order of the outputs and the names of the systems change no figure."""

import random

import pytest

from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.report.significance import contested, explained
from posnmt.metrics.registry import METRICS
from tests.support.report_case import noisy, sentences

LINES = sentences(50)
# `copy` is the same text as `a`, the best of all; `d` has two seeds.
OUTPUTS = {
    "a": noisy(LINES, 0.2, 1), "b": noisy(LINES, 0.35, 2), "c": noisy(LINES, 0.3, 3), "copy": noisy(LINES, 0.2, 1),
    "d:1": noisy(LINES, 0.32, 4), "d:2": noisy(LINES, 0.28, 5),
    "cut": [" ".join(line.split()[:7]) for line in LINES],
}  # fmt: skip
PAIRWISE = ("paired_bootstrap", "sign_test", "approximate_randomisation")


@pytest.fixture(scope="module")
def results_of(tmp_path_factory):
    """A function: the results of outputs in an order, with other names."""
    folder = tmp_path_factory.mktemp("order")
    for name, lines in {"reference": LINES, **OUTPUTS}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
        draw = random.Random("a" if name == "copy" else name)
        (folder / f"{name}.quality").write_text("".join(f"{draw.random():.3f}\n" for _ in lines))

    def made(order, renamed=lambda name: name):
        settings = Settings(metrics=METRICS, resampling=Resampling(100), bin_width=8, lower_is_better=["errors"])
        of_outputs = {renamed(name): folder / f"{name}.quality" for name in order}
        return analyse(
            folder / "reference", folder / "reference", {renamed(name): folder / name for name in order}, settings,
            {(renamed("b"), 0.5): folder / "c"},
            scores={
                metric: {**of_outputs, f"{renamed('b')}:0.5": folder / "c.quality"} for metric in ("quality", "errors")
            },
        ).results  # fmt: skip

    return made


def by_name(results, original):
    """Every figure of the results by what it is of: the place in the results, with names in place of numbers."""
    found = {}

    def put(key, value):
        if isinstance(value, dict):
            for name, each in value.items():
                put((*key, name), each)
        elif isinstance(value, list):
            for number, each in enumerate(value):
                put((*key, number), each)
        else:
            found[key] = value

    def put_matrices(key, entry, names):
        for field, matrix in entry.items():
            for row, one in zip(matrix, names, strict=True):
                for value, other in zip(row, names, strict=True):
                    put((*key, field, one, other), value)

    outputs = [original(each["name"]) for each in results["systems"]]
    for metric, entry in results["significance"]["metrics"].items():
        put_matrices((metric,), {"differences": entry["differences"]}, outputs)
        for test, matrices in entry["tests"].items():
            put_matrices((metric, test), matrices, outputs)
    seeds = results["seeds"]
    systems = [original(each["name"]) for each in seeds["systems"]]
    for metric, matrices in seeds["welch"].items():
        put_matrices(("welch", metric), matrices, systems)
    parts = {"systems": results["systems"], "positions": results["positions"]["systems"], "swap": results["swap"]}
    for part, of_systems in {**parts, "seeds": seeds["systems"]}.items():
        for each in of_systems:
            about = {field: value for field, value in each.items() if field not in ("name", "outputs")}
            put((part, original(each["name"])), about)
    for pair in results["differences"]:
        one, other = original(pair["system"]), original(pair["other"])
        for place, measures in enumerate([pair["overall"], *pair["bins"]]):
            for measure, figures in measures.items():
                difference, low, high = figures or [None] * 3
                put(("difference", one, other, place, measure), [difference, low, high])
                negative = [None] * 3 if figures is None else [-difference, -high, -low]
                put(("difference", other, one, place, measure), negative)
    for number, group in enumerate(results["verdict"]["groups"]):
        place = ("verdict", number)
        put((*place, "best"), sorted(map(original, group["best"])))
        for field in ("scores", "p"):
            put((*place, field), {original(name): value for name, value in group[field].items()})
    for number, each in enumerate(results["length_distributions"]):
        if each:
            put(("lengths", number), dict(zip(outputs, each["systems"], strict=True)))
    return found


@pytest.fixture(scope="module")
def plain(results_of):
    return results_of(list(OUTPUTS))


RENAMED = {"a": "z", "b": "y", "c": "x", "copy": "a", "d:1": "s:2", "d:2": "s:1", "cut": "b", "d": "s"}
ORIGINAL = {new: old for old, new in RENAMED.items()}


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_and_the_names_of_outputs_change_no_figure(results_of, plain, seed):
    order = random.Random(seed).sample(list(OUTPUTS), len(OUTPUTS))
    other = results_of(order, RENAMED.__getitem__)
    assert [*plain["significance"]["metrics"]] == [*METRICS, "quality", "errors"]
    expected, found = by_name(plain, str), by_name(other, ORIGINAL.__getitem__)
    assert found.keys() == expected.keys()
    assert {key: (expected[key], found[key]) for key in expected if expected[key] != found[key]} == {}
    for sentences_of in (explained, contested):
        assert len(sentences_of(plain)) == len(sentences_of(other))


def test_two_copies_of_a_text_stand_alike_to_every_other(plain):
    names = [each["name"] for each in plain["systems"]]
    one, copy = names.index("a"), names.index("copy")
    for metric, entry in plain["significance"]["metrics"].items():
        assert set(entry["tests"]) == set(PAIRWISE)
        for test, matrices in entry["tests"].items():
            assert matrices["p"][one][copy] == matrices["corrected"][one][copy] == 1, (metric, test)
            assert matrices["marks"][one][copy] == "~"
            for other in range(len(names)):
                if other not in (one, copy):
                    for field, matrix in matrices.items():
                        assert matrix[one][other] == matrix[copy][other], (metric, test, field)
                        assert matrix[other][one] == matrix[other][copy], (metric, test, field)
    assert plain["systems"][one]["overall"] == plain["systems"][copy]["overall"]
    assert plain["systems"][one]["intervals"] == plain["systems"][copy]["intervals"]
    [group] = plain["verdict"]["groups"]
    assert group["best"] == ["a", "copy"]
    assert set(group["p"]) == {"b", "c", "d", "cut"}


def test_every_p_is_the_same_from_both_sides(plain):
    for entry in plain["significance"]["metrics"].values():
        for matrices in entry["tests"].values():
            for one in range(len(OUTPUTS)):
                for other in range(one):
                    assert matrices["p"][one][other] == matrices["p"][other][one]
                    assert matrices["corrected"][one][other] == matrices["corrected"][other][one]
                    pair = {matrices["marks"][one][other], matrices["marks"][other][one]}
                    assert pair in ({"~"}, {">", "<"}, {">>", "<<"})
