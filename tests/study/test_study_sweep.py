"""Sweeps: their points as systems and trainings, faulty ones, their steps, and their curves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from posnmt.base.errors import UserError
from posnmt.evaluation.report.charts import Chart, Panel, curve_through
from posnmt.evaluation.report.figures.canvas import entry
from posnmt.metrics.measure import Measure
from posnmt.study.faults import Faults
from posnmt.study.figures import _is_geometric, plates
from posnmt.study.load import load
from posnmt.study.measured import Measured, StudyResults
from posnmt.study.plan import KINDS, analyses, plan
from posnmt.study.points import collapsed, points
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.study import load_plan, save_request
from posnmt.study.trainings import train_config
from posnmt.study.workflow.graph import Graph
from tests.support.recipe_case import SMALL, faults_of, written

CLIP = {"of": "relative.distance", "values": [2, 8, 4]}
CAP = {"of": "data.max_length", "values": {"smoke": [20], "small": [20, 30]}, "label": "length cap"}


def swept(folder: Path, grid: dict[str, Any], **changes: Any) -> str:
    """A recipe with one sweep of `relative` alone."""
    sweep = {"systems": ["relative"], "analyses": ["test"], "grid": grid, **changes}
    return written(folder, {**SMALL, "runs": [], "sweep": {"clips": sweep}})


def variants(recipe: Recipe, scale: Scale = "small") -> list[str]:
    return ["/".join(variant) for variant in recipe.variants(scale)]


def config(recipe: Recipe, scale: Scale, variant: str) -> dict[str, Any]:
    return train_config(recipe, scale, *variant.split("/"), 1)


@pytest.mark.parametrize("changes", [{}, {"figures": []}])
def test_a_recipe_without_its_points_is_the_file_again(changes: dict[str, Any], tmp_path: Path) -> None:
    recipes = [load("clip-by-cap", check_configs=False), load(swept(tmp_path, {"clip": CLIP, "cap": CAP}))]
    for recipe in recipes:
        tree = collapsed(recipe.model_copy(update=changes)).model_dump(mode="json", by_alias=True, exclude_unset=True)
        path = tmp_path / "again.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
        again = load(str(path), check_configs=False)
        assert again.variants("small") == recipe.variants("small")
        assert changes or again.hash == recipe.hash


def test_every_combination_is_a_system_with_a_training(tmp_path: Path) -> None:
    recipe = load(swept(tmp_path, {"clip": CLIP, "cap": CAP}))
    assert variants(recipe, "smoke") == [f"relative@clip={clip}/all@cap=20" for clip in (2, 8, 4)]
    assert len(variants(recipe)) == 6
    made = config(recipe, "small", "relative@clip=8/all@cap=30")
    position = [{"scheme": "relative", "distance": 8}]
    assert made["model"] == {"system": "relative", "encoder": {"position": position}, "decoder": {"position": position}}
    assert made["data"]["max_length"] == 30
    assert recipe.label(("relative@clip=8", "all@cap=30")) == "relative, clip=8, cap=30"
    assert analyses(step_plan := plan(recipe, "smoke", None), step_plan.steps)[0]["test"].settings["seeds"] == 2


@pytest.mark.parametrize(
    ("of", "value", "where", "made"),
    [
        ("model.encoder.layers", 3, "relative@it=3/all", ("model", "encoder", "layers")),
        ("train.learning_rate", "1e-3", "relative@it=0.001/all", ("train", "learning_rate")),
        ("train.schedule.type", "noam", "relative@it=noam/all", ("train", "schedule", "type")),
        ("relative.values", False, "relative@it=false/all", ("model", "encoder", "position", 0, "values")),
        ("subword.vocabulary", 90, "relative/all@it=90", ("subword", "vocabulary")),
        ("decode.beam", 7, "relative/all@it=7", ("decode", "beam")),
    ],
)
def test_any_setting_can_be_varied(tmp_path: Path, of: str, value: Any, where: str, made: tuple[Any, ...]) -> None:
    recipe = load(swept(tmp_path, {"it": {"of": of, "values": [value]}}))
    assert variants(recipe) == [where]
    found: Any = config(recipe, "small", where)
    for key in made:
        found = found[key]
    assert found == (0.001 if value == "1e-3" else value)


def test_values_of_a_sweep_win_over_what_its_systems_and_trainings_have(tmp_path: Path) -> None:
    systems = {"own": {"system": "relative", "options": {"relative": {"distance": {"smoke": 9}, "values": False}}}}
    trainings = {"short": {"max_length": {"smoke": 5, "small": 6}, "config": {"data": {"tokenise": "moses"}}}}
    tree = {**SMALL, "systems": systems, "trainings": trainings, "runs": []}
    tree["analyses"] = {"test": {"test": "test", "trainings": ["short"], "systems": ["own"]}}
    tree["sweep"] = {"s": {"systems": ["own"], "analyses": ["test"], "grid": {"clip": CLIP, "cap": CAP}, "seeds": 1}}
    recipe = load(written(tmp_path, tree))
    made = config(recipe, "smoke", "own@clip=4/short@cap=20")
    assert made["model"]["encoder"]["position"] == [{"scheme": "relative", "distance": 4, "values": False}]
    assert made["data"]["max_length"] == 20
    assert made["data"]["tokenise"] == "moses"
    assert recipe.seeds(("own@clip=4", "short@cap=20"), "smoke") == 1
    step_plan = plan(recipe, "smoke", None)
    outputs = analyses(step_plan, step_plan.steps)[0]["test"].settings["outputs"]
    assert [each["system"] for each in outputs] == ["own@clip=2", "own@clip=8", "own@clip=4"]


def test_added_points_leave_the_steps_of_the_others(tmp_path: Path) -> None:
    few = plan(load(swept(tmp_path, {"clip": CLIP})), "smoke", None)
    more = plan(load(swept(tmp_path, {"clip": {**CLIP, "values": [1, 2, 4, 8, 16]}})), "smoke", None)
    before, after = (Graph(each.steps.values(), KINDS) for each in (few, more))
    assert {name: before.key(name) for name in before.order()}.items() < {
        name: after.key(name) for name in after.order()
    }.items()
    assert len(after.order()) - len(before.order()) == 2 * 2 * 2  # two points of two seeds: a training, a translation


def test_a_point_is_the_step_of_a_system_that_is_written_out(tmp_path: Path) -> None:
    systems = {**SMALL["systems"], "near": {"system": "relative", "options": {"relative": {"distance": 4}}}}
    runs = [{"systems": ["near"], "trainings": ["all"], "tests": ["test"]}]
    plain = plan(load(written(tmp_path, {**SMALL, "systems": systems, "runs": runs})), "smoke", None)
    point = plan(load(swept(tmp_path, {"clip": CLIP})), "smoke", None)
    keys = [
        Graph(each.steps.values(), KINDS).key(f"train/{name}/all/seed-1")
        for each, name in ((plain, "near"), (point, "relative@clip=4"))
    ]
    assert keys[0] == keys[1]


def test_another_beam_is_swept_without_another_training(tmp_path: Path) -> None:
    made = plan(load(swept(tmp_path, {"beam": {"of": "decode.beam", "values": [1, 4]}})), "smoke", None)
    graph = Graph(made.steps.values(), KINDS)
    keys = {
        kind: {graph.key(name) for name in graph.order() if name.startswith(f"{kind}/")}
        for kind in ("train", "translate")
    }
    assert [len(keys[kind]) for kind in ("train", "translate")] == [2, 4]


def test_a_study_of_a_sweep_is_reopened_as_it_was(tmp_path: Path) -> None:
    made = plan(load(swept(tmp_path, {"clip": CLIP})), "smoke", None)
    (tmp_path / "study").mkdir()
    save_request(made, tmp_path / "study")
    again = load_plan(tmp_path / "study")
    assert again.recipe == made.recipe
    assert again.steps == made.steps
    assert not list(Faults(again.recipe, tmp_path, {}).names())


def test_points_stand_in_claims_tables_and_runs(tmp_path: Path) -> None:
    tree = yaml.safe_load(Path(swept(tmp_path, {"clip": CLIP, "cap": CAP})).read_text())
    sides = [{"system": f"relative@clip={clip}/all@cap=20"} for clip in (2, 8)]
    compared = {"analysis": "test", "is": "higher", "of": sides[0], "than": sides[1]}
    tree["claims"] = [{"claim": 1, "says": "shorter is better", "test": compared}]
    tree["runs"] = [{"systems": ["transformer"], "trainings": ["all@cap=20"], "tests": ["test"]}]
    recipe = load(written(tmp_path, tree))
    assert "transformer/all@cap=20" in variants(recipe)
    tree["claims"][0]["test"]["than"] = {"system": "relative@clip=9/all@cap=20"}
    told = faults_of(written(tmp_path, tree))
    assert "claims.0: systems has no 'relative@clip=9'" in told


@pytest.mark.parametrize(
    ("grid", "changes", "message"),
    [
        ({}, {}, "sweep.clips.grid: dictionary should have at least 1 item"),
        ({"clip": {**CLIP, "values": []}}, {}, "there are no values"),
        ({"clip": {**CLIP, "values": {"smoke": [1], "small": []}}}, {}, "there are no values"),
        ({"clip": {**CLIP, "values": 4}}, {}, "values are a list, such as [2, 4, 8]; got 4"),
        ({"clip": {**CLIP, "values": [4, [5]]}}, {}, "a value is a number or a word, not [5]"),
        ({"clip": {**CLIP, "values": [4, 2, 4.0]}}, {}, "4 is there twice"),
        ({"clip": {**CLIP, "values": {"medium": [4]}}}, {}, "input should be 'smoke', 'small' or 'paper'"),
        ({"clip": {**CLIP, "of": "relative"}}, {}, "sweep.clips.grid.clip.of: string should match pattern"),
        ({"clip": {**CLIP, "of": "relative.distanse"}}, {}, "sweep.clips.grid.clip: model.encoder.position: relative "
         "has no option 'distanse'"),
        ({"clip": {**CLIP, "of": "rope.base"}}, {}, "the system 'relative' has no scheme 'rope'"),
        ({"clip": {**CLIP, "of": "model.dmodel"}}, {}, "sweep.clips.grid.clip: unknown key model.dmodel"),
        ({"cap": {**CAP, "of": "data.max_lenght"}}, {}, "sweep.clips.grid.cap: unknown key data.max_lenght"),
        ({"seed": {"of": "train.seed", "values": [1, 2]}}, {}, "train.seed is varied by `seeds`"),
        ({"clip": {**CLIP, "values": list(range(1, 102))}}, {}, "it has 101 points at scale smoke (101 of clip); "
         "`most: 101` allows them"),
        ({"clip": CLIP, "distance": CLIP}, {}, "sweep.clips: two dimensions of its grid vary relative.distance"),
        ({"clip": CLIP}, {"systems": ["relativ"]}, "sweep.clips.systems: systems has no 'relativ'"),
        ({"clip": CLIP}, {"analyses": ["tset"]}, "sweep.clips.analyses: analyses has no 'tset'"),
        ({"clip": CLIP}, {"trainings": ["most"]}, "sweep.clips.trainings: trainings has no 'most'"),
    ],
)  # fmt: skip
def test_a_faulty_sweep_is_one_line(tmp_path: Path, grid: Any, changes: Any, message: str) -> None:
    told = faults_of(swept(tmp_path, grid, **changes))
    assert message in told
    assert "\n" not in told
    line = int(told.partition("own.yaml:")[2].partition(")")[0])
    text = (tmp_path / "own.yaml").read_text().split("\n")
    assert line >= text.index("  clips:") + 1


def test_a_value_that_is_refused_is_told_alone(tmp_path: Path) -> None:
    told = faults_of(swept(tmp_path, {"clip": {**CLIP, "values": [0, 4]}, "cap": CAP}))
    assert told.count("\n") == 0
    assert "sweep.clips.grid.clip: model.encoder.position: relative.distance: Input should be greater" in told


def test_a_large_grid_that_is_asked_for(tmp_path: Path) -> None:
    grid = {"clip": {**CLIP, "values": list(range(1, 102))}}
    recipe = load(swept(tmp_path, grid, most=101), check_configs=False)
    assert len(points(recipe, recipe.sweep["clips"], "smoke")) == 101


def test_a_grid_is_too_large_also_by_the_systems_that_it_is_filled_in_with(tmp_path: Path) -> None:
    """Without `systems` a sweep is of all that have the setting."""
    grid = {"smoothing": {"of": "train.label_smoothing", "values": [place / 1000 for place in range(60)]}}
    sweep = {"smoothing": {"analyses": ["test"], "grid": grid}}
    told = faults_of(written(tmp_path, {**SMALL, "sweep": sweep}))
    assert "sweep.smoothing: it has 120 points at scale smoke (2 systems x 60 of smoothing); `most: 120`" in told


def test_names_of_sweeps_are_kept_apart(tmp_path: Path) -> None:
    tree = yaml.safe_load(Path(swept(tmp_path, {"clip": CLIP})).read_text())
    tree["sweep"]["more"] = {**tree["sweep"]["clips"], "grid": {"clip": {"of": "train.clip", "values": [1]}}}
    assert "clip is relative.distance in another sweep, and train.clip in this one" in faults_of(
        written(tmp_path, tree)
    )
    tree["sweep"].pop("more")
    tree["systems"]["relative@clip=2"] = {"system": "relative"}
    assert "systems.relative@clip=2: @ marks the points of a sweep" in faults_of(written(tmp_path, tree))


def test_a_figure_of_a_sweep_that_is_not_there(tmp_path: Path) -> None:
    tree = yaml.safe_load(Path(swept(tmp_path, {"clip": CLIP})).read_text())
    figure = {"figure": 1, "caption": "It", "kind": "sweep", "panels": [{"analysis": "test"}]}
    tree["figures"] = [{**figure, "sweep": "klips"}]
    assert "figures.0.sweep: sweep has no 'klips'" in faults_of(written(tmp_path, tree))
    for changes in ({}, {"sweep": "clips", "lines": {"a": {"relative": 1}}}, {"sweep": "clips", "kind": "swap"}):
        tree["figures"] = [{**figure, **changes}]
        assert "a figure of kind sweep needs `lines`, or the name of a `sweep`" in faults_of(written(tmp_path, tree))


def results_of(recipe: Recipe, scale: Scale) -> StudyResults:
    """Made-up results: BLEU is the sum of a point's values, and of the seed; less 1 in the second of two bins."""
    systems: list[dict[str, Any]] = []
    places: dict[tuple[str, str], dict[int, int]] = {}
    runs = []
    [sweep] = recipe.sweep.values()
    for number, point in enumerate(points(recipe, sweep, scale)):
        for seed in range(1, recipe.seeds((point.system, point.training), scale) + 1):
            bleu = seed + sum(value if isinstance(value, int) else number for value in point.values.values())
            ends = [[bleu - 5, bleu + 5], [bleu - 6, bleu + 4]]
            places.setdefault((point.system, point.training), {})[seed] = len(systems)
            systems.append({
                "overall": {"bleu": bleu}, "bins": [{"bleu": bleu}, {"bleu": bleu - 1}],
                "intervals": {"overall": {"bleu": ends[0]}, "bins": [{"bleu": each} for each in ends]},
            })  # fmt: skip
            runs.append({"system": point.system, "training": point.training, "seed": seed, "state": "done"})
    bins = [{"first": 0, "last": 9, "label": "0-9"}, {"first": 10, "last": None, "label": "10-"}]
    results = StudyResults(recipe, scale, runs, {"test": Path("-")})
    results.__dict__["measured"] = {
        "test": Measured({"systems": systems, "bins": bins, "settings": {"unit": "tokens"}}, places)
    }
    return results


def test_curves_of_a_sweep(tmp_path: Path) -> None:
    recipe = load(swept(tmp_path, {"clip": {**CLIP, "label": "clipping distance"}, "cap": CAP}, seeds=1))
    plate, *_ = plates(results_of(recipe, "small"))
    [chart] = plate.charts
    [panel] = chart.panels
    assert [curve.name for curve in panel.curves] == ["relative, cap=20", "relative, cap=30"]
    assert (chart.places, chart.labels, chart.axis) == ([2, 4, 8], ["2", "4", "8"], "clipping distance")
    assert chart.logarithmic
    assert [list(curve.values) for curve in panel.curves] == [[23, 25, 29], [33, 35, 39]]
    assert panel.curves[0].intervals[0] == [18, 28]
    assert not [line for line in plate.legend if "not run" in line]


def of_long_sources(recipe: Recipe, scale: Scale) -> StudyResults:
    """Results whose figure is of the second bin."""
    [panel] = recipe.figures[0].panels
    figures = [recipe.figures[0].model_copy(update={"panels": [panel.model_copy(update={"lengths": [10, None]})]})]
    results = replace(results_of(recipe, scale), recipe=recipe.model_copy(update={"figures": figures}))
    results.__dict__["measured"] = results_of(recipe, scale).measured
    return results


def test_curves_at_a_length_have_its_intervals(tmp_path: Path) -> None:
    recipe = load(swept(tmp_path, {"clip": CLIP}, seeds=1), check_configs=False)
    plate, *_ = plates(of_long_sources(recipe, "small"))
    [curve] = plate.charts[0].panels[0].curves
    assert list(curve.values) == [2, 4, 8]
    assert list(curve.intervals) == [[-3, 7], [-1, 9], [3, 13]]


def test_curves_over_seeds_words_and_lengths(tmp_path: Path) -> None:
    words = {"init": {"of": "relative.init", "values": ["normal", "xavier"]}}
    recipe = load(swept(tmp_path, words), check_configs=False)
    [plate] = plates(of_long_sources(recipe, "smoke"))
    [chart] = plate.charts
    assert (chart.places, chart.labels, chart.axis) == (None, ["normal", "xavier"], "relative.init")
    assert chart.title.endswith("sources of 10 or more subwords")
    [curve] = chart.panels[0].curves
    assert list(curve.values) == [0.5, 1.5]  # the mean of two seeds
    assert list(curve.intervals) == [(0, 1), (1, 2)]
    assert entry(curve) == "relative (mean of 2 seeds)"


def test_a_curve_whose_points_have_different_numbers_of_seeds() -> None:
    curve = curve_through("relative", 0, [([1.0], (0, 2)), ([1.0, 2.0, 3.0], None), ([], None)])
    assert entry(curve) == "relative (mean of 1 to 3 seeds)"
    table = Chart("", "", "", ["2", "4", "8"], [Panel(Measure("BLEU", "", 1), [curve])]).by_curve()
    assert [cell.seeds for cell in table.rows[0].cells] == [1, 3, 0]


def test_each_measure_of_the_analyses_has_a_figure(tmp_path: Path) -> None:
    recipe = load(swept(tmp_path, {"clip": CLIP}))
    assert [(each.figure, each.measure, each.sweep) for each in recipe.figures] == [
        (1, "bleu", "clips"), (2, "chrf", "clips"), (3, "ter", "clips"),
    ]  # fmt: skip


def test_a_sweep_on_the_command_line_varies_the_systems_that_have_the_setting(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    recipe = load(path, sweeps=("relative.distance=2,4", "relative.values=true,false"))
    points = [f"relative@distance={clip},values={word}/all" for clip in (2, 4) for word in ("true", "false")]
    assert variants(recipe) == ["transformer/all", "relative/all", *points]
    found = config(recipe, "smoke", points[3])["model"]["decoder"]["position"]
    assert found == [{"scheme": "relative", "distance": 4, "values": False}]
    assert [figure.measure for figure in recipe.figures] == ["bleu", "chrf", "ter"]
    both = load(path, sweeps=("data.max_length=20,30",))
    assert variants(both)[2:] == [
        f"{system}/all@max_length={cap}" for system in ("transformer", "relative") for cap in (20, 30)
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("distance=2,4", "a sweep is written section.setting=value,value; got 'distance=2,4'"),
        ("relative.distance", "a sweep is written section.setting=value,value; got 'relative.distance'"),
        ("relative.distance=", "sweep.given.grid.distance.values: there are no values"),
        ("relative.distance=2,4,2", "sweep.given.grid.distance.values: 2 is there twice"),
        ("relative.distanse=2,4", "relative has no option 'distanse'; did you mean 'distance'?"),
        ("rope.base=2,4", "sweep.given: no system of `runs` has all position schemes of the grid"),
        ("train.stepz=2,4", "sweep.given.grid.stepz: unknown key train.stepz"),
    ],
)
def test_a_faulty_sweep_on_the_command_line_is_one_line(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        load(written(tmp_path, SMALL), sweeps=(given,))
    [line] = raised.value.lines
    assert message in line


@pytest.mark.parametrize(
    ("places", "logarithmic"),
    [([2, 4, 8], True), ([1, 10, 100, 1000], True), ([0.1, 0.3, 1], True), ([64, 128, 192, 256], False),
     ([2, 4, 6], False), ([0, 1, 10], False), ([-1, 1, 10], False), ([1, 100], False), ([5], False), ([], False)],
)  # fmt: skip
def test_axes_follow_the_values(places: list[float], logarithmic: bool) -> None:
    assert _is_geometric(places) == logarithmic


def test_an_option_of_a_scheme_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the systems, only `near` has the scheme, by settings of its own over `none`."""
    code = [
        "from posnmt.position import Options, Scheme",
        "class Near(Scheme):",
        "    class Settings(Options):",
        "        width: float = 8.0",
    ]
    (tmp_path / "swept_scheme.py").write_text("\n".join(code), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    side = {"position": [{"scheme": "swept_scheme:Near"}]}
    systems = {**SMALL["systems"], "near": {"system": "none", "model": {"encoder": side, "decoder": side}}}
    runs = [{"systems": list(systems), "trainings": ["all"], "tests": ["test"]}]
    path = written(tmp_path, {**SMALL, "systems": systems, "runs": runs})
    recipe = load(path, sweeps=("swept_scheme:Near.width=2,4",))
    points = [system for system in recipe.systems if "@" in system]
    assert points == ["near@width=2", "near@width=4"]
    assert recipe.systems["near@width=4"].options == {"swept_scheme:Near": {"width": 4}}
