"""The report of a study, from analyses of toy texts that `analyse` itself has made."""

import copy
import csv
import html
import json
import re
import statistics
from dataclasses import replace

import pytest

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet
from posnmt.evaluation.report.latex_sheet import to_latex
from posnmt.evaluation.report.significance import agreed
from posnmt.study import published
from posnmt.study.figures import plates
from posnmt.study.layout import Table
from posnmt.study.load import load, shipped
from posnmt.study.marks import signs
from posnmt.study.measured import Finding, Measured, Recommendation, StudyResults
from posnmt.study.page import facts, render
from posnmt.study.plan import PlannedRun
from posnmt.study.recipe import Text
from posnmt.study.study import _run
from posnmt.study.tables import sheets
from posnmt.study.workflow.status import State
from tests.support.report_case import without_figures
from tests.support.study_report_case import FAILED, Page, made_runs, made_study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return made_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def report(study, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    render(study, out)
    return out


@pytest.fixture(scope="module")
def page(report):
    return Page((report / "report.html").read_text())


def cells_of(report, name):
    """A table's CSV by row, group and column."""
    with (report / "tables" / f"{name}.csv").open(newline="") as stream:
        return {(each["row"], each["group"], each["column"]): each for each in csv.DictReader(stream)}


def analysed(study, name="test"):
    return json.loads((study.analyses[name] / "results.json").read_text())


def test_our_mean_stands_above_the_published_figure(study, report, page):
    outputs = [system["overall"]["bleu"] for system in analysed(study)["systems"] if "Relative" in system["name"]]
    assert len(outputs) == 2
    bleu, japanese, training, parameters, _ = page.row("table-1", "+Relative_PE & <more>")
    deviation = statistics.stdev(outputs)
    assert bleu == f"{statistics.mean(outputs):.2f} ++ ±{deviation:.2f} published 27.10"
    assert japanese == ""
    assert training == "66 (0.43×) published 4,418 (0.45×)"  # 40 and 92, in turn with 100 and 200
    assert parameters == "97.35M published 97.60M"
    assert page.row("table-1", "Transformer")[1] == "published 38.44"
    cell = cells_of(report, "table-1")["+Relative_PE & <more>", "", "BLEU"]
    assert (float(cell["mean"]), float(cell["deviation"])) == pytest.approx((statistics.mean(outputs), deviation))
    assert (cell["seeds"], cell["sign"], cell["published"]) == ("2", "++", "27.10")
    [speed] = [
        each for key, each in cells_of(report, "table-1").items() if key[0].startswith("+Rel") and "Train" in key[2]
    ]
    assert (speed["seeds"], speed["deviation"]) == ("1", "")  # of two turns


def test_speeds_of_different_hours_are_not_compared(study, tmp_path):
    with without_figures():
        render(replace(study, speeds={}), tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert Page(text).row("table-1", "+Relative_PE & <more>")[2] == "– a published 4,418 (0.45×)"
    assert "Not measured in turn with the others" in text


def test_cited_rows_and_headings_come_in_the_papers_order(page):
    labels = [row[0][1] for row in page.tables["table-1"]]
    assert labels == [
        "System", "Cited by the paper", "GNMT & al. (2016)", "Base", "Transformer", "+Relative_PE & <more>", "RNN",
        "Big", "RR (big)",
    ]  # fmt: skip
    assert page.row("table-1", "GNMT & al. (2016)") == ["published 26.3", "", "", "published N/A", ""]


def test_failed_and_left_out_systems_stay_with_their_reason(page):
    assert page.row("table-1", "RNN")[0] == "failed b published 28.03++"
    assert page.row("table-1", "RR (big)")[0] == "not run c published 29.11"
    text = " ".join(" ".join(page.texts).split())
    assert "RNN: seeds 1, 2 failed: the loss is not a number." in text
    assert "Not run at scale smoke." in text
    assert "By part: missing, because none of its translations was made" in text


def test_one_failed_seed_of_two_is_said_beside_the_other(tmp_path):
    study = made_study(tmp_path / "study", failed=())
    runs = made_runs(study.recipe, 2, [(("transformer", 2), FAILED)])
    with without_figures():
        render(replace(study, runs=runs), tmp_path / "out")
    (training,) = [row[3][1] for row in Page((tmp_path / "out/report.html").read_text()).tables["table-1"]
                   if row[0][1] == "Transformer"]  # fmt: skip
    assert training == "150 a published 9,910"
    assert "Transformer: seed 2 failed: the loss is not a number." in (tmp_path / "out/report.html").read_text()


def test_a_sign_stands_only_if_every_pair_of_seeds_has_it(study):
    measured, recipe = study.measured["test"], study.recipe
    outputs = [measured.outputs((system, "all")) for system in ("relative", "transformer")]
    assert agreed(measured.results, "bleu", "paired_bootstrap", *outputs) in (">", ">>")
    assert agreed(measured.results, "bleu", "paired_bootstrap", *reversed(outputs)) in ("<", "<<")
    assert agreed(measured.results, "chrf++", "paired_bootstrap", *outputs) is None
    tests = measured.results["significance"]["metrics"]["bleu"]["tests"]
    row, column = measured.places["relative", "all"][2], measured.places["transformer", "all"][1]
    spoiled = copy.deepcopy(measured.results)
    found = spoiled["significance"]["metrics"]["bleu"]["tests"]
    found["paired_bootstrap"]["marks"][row][column] = "~"
    found["sign_test"]["corrected"][row][column] = 0.03
    assert agreed(spoiled, "bleu", "paired_bootstrap", *outputs) == "~"
    assert max(tests["sign_test"]["corrected"][row][place] for place in (0, 1)) < 0.01
    changed = replace(study)
    changed.__dict__["measured"] = {"test": Measured(spoiled, measured.places)}
    table = recipe.tables[0]
    assert signs(study, table)[0] == {(1, 0): "++"}
    assert signs(changed, table)[0] == {(1, 0): "+"}
    found["sign_test"]["sentences"][row][column] = [1, 2]
    assert signs(changed, table)[0] == {}


def test_published_figures_by_length_stand_under_their_own_bins(study, report, page):
    bins = analysed(study)["systems"][0]["bins"]
    assert len(bins) == 3
    assert page.row("table-2", "Transformer")[4].endswith("published 21.5")
    sizes = [each["n"] for each in study.measured["test"].results["bins"]]
    assert [size < FEWEST_SENTENCES for size in sizes] == [True, False, False]
    shown = page.row("table-2", "Transformer")
    assert [text.startswith("(") for text in shown[::2]] == [True, False, False]
    assert f"In parentheses: fewer than {FEWEST_SENTENCES} sentences." in page.texts
    of_figure = next(plate for plate in plates(study) if plate.title == "Figure 1")
    assert f"Points of fewer than {FEWEST_SENTENCES} sentences are hollow and not joined." in of_figure.legend
    assert page.tables["table-2"][0][1][1] == "0–4 n = 15"
    assert page.row("table-3", "Transformer") == [
        page.row("table-2", "Transformer")[place].removesuffix(f" published {figure}")
        for place, figure in ((0, 31.7), (2, 32.0), (4, 21.5))
    ]
    assert page.row("table-3-published", "Transformer") == ["31.7", "32"]
    assert page.tables["table-3-published"][0][1][1] == "0–25 n = 14,641"
    assert cells_of(report, "table-3")["+Relative_PE & <more>", "0-25", "BLEU"]["published"] == "31.8"
    assert ("+Relative_PE & <more>", "26-", "BLEU") not in cells_of(report, "table-3")


def test_a_bin_without_sentences_says_nothing_of_a_system(tmp_path):
    study = made_study(tmp_path / "study", failed=())
    study = replace(study, runs=made_runs(study.recipe, 2, [(("transformer", 2), FAILED)]))
    found = study.measured["test"].results
    found["bins"][0]["n"] = 0
    for system in found["systems"]:
        system["bins"][0] |= {"bleu": None, "ter": None}
    with without_figures():
        render(study, tmp_path / "out")
    row = Page((tmp_path / "out/report.html").read_text()).row("table-2", "Transformer")
    assert row[0] == "– published 31.7"
    assert " a " in row[2]  # the failed seed


def test_lengths_that_a_systems_own_training_never_saw_are_shaded(study, tmp_path):
    runs = made_runs(study.recipe, 2, [(("relative", seed), {"source_lengths": [1, 12]}) for seed in (1, 2)])
    render(replace(study, runs=runs), tmp_path)
    page = Page((tmp_path / "report.html").read_text())
    shades = {row[0][1]: [of_cell for of_cell, _ in row[1:]] for row in page.tables["table-3"][2:]}
    assert shades["Transformer"] == ["", "", "unseen"]
    assert shades["+Relative_PE & <more>"] == ["", "", "partly"]


def test_matrix_parts_and_corpora(page):
    assert page.row("table-4", "Transformer")[1] in ("< published <<", "<< published <<")
    assert page.row("table-4", "RR (big)")[:2] == ["not run a", "not run a"]
    assert page.row("table-5", "Short") == [
        "1 published 1", "9 published 24", "40 published 1,878,354", "400 published 29,841,533"
    ]  # fmt: skip
    assert page.row("table-6", "train") == ["3,661,035 published 3,661,035 (4,468,840)", "9", "12"]
    assert page.row("table-6-published", "train") == ["1,166,725"]
    assert page.row("table-6", "nothing")[0] == "– a published 3,000"
    assert page.row("table-7", "Transformer") == ["", "published >>"]
    assert page.row("table-8", "Transformer") == ["missing a"]


@pytest.mark.parametrize(
    ("correction", "end"), [("none", "; p is not corrected for the number of comparisons."), ("holm", ").")]
)
def test_a_matrix_says_that_p_is_not_corrected(tmp_path, correction, end):
    study = made_study(tmp_path / "study")
    study.measured["test"].results["settings"]["correction"] = correction
    (matrix,) = (sheet for sheet in sheets(study) if sheet.title == "Table 4")
    assert matrix.legend[0].endswith(end)


def test_figures_have_their_numbers_and_say_what_is_not_drawn(study, report):
    drawn = sorted(path.name for path in (report / "figures").iterdir())
    names = ("figure-1a", "figure-2a", "figure-3a", "figure-4a", "figure-5a")
    assert drawn == [f"{name}.{kind}" for name in names for kind in ("csv", "pdf", "svg")]
    text = (report / "report.html").read_text()
    assert "Test set: not drawn, because 7-9 is not a bin of the analysis, which has 0-4, 5-9, 10-." in text
    assert "Short: not drawn, because none of its translations was made." in text
    assert "In the paper: It falls." in text
    with (report / "figures/figure-3a.csv").open(newline="") as stream:
        swapped = [each for each in csv.DictReader(stream) if each["row"] == "Transformer" and each["column"] == "20 %"]
    ours = [curve["bleu"][1] for curve in analysed(study, "swapped")["swap"] if curve["name"].startswith("Transf")]
    assert [float(each["mean"]) for each in swapped] == [pytest.approx(statistics.mean(ours))]
    assert [(float(each["low"]), float(each["high"])) for each in swapped] == [(min(ours), max(ours))]
    with (report / "figures/figure-2a.csv").open(newline="") as stream:
        counts = [float(each["mean"]) for each in csv.DictReader(stream) if each["row"] == "reference"]
    assert sum(counts) == analysed(study)["bins"][1]["n"]
    with (report / "figures/figure-5a.csv").open(newline="") as stream:
        shares = {each["column"]: float(each["mean"]) for each in csv.DictReader(stream)}
    assert shares["0-4"] == 12.5
    assert shares["55-59"] == 50
    assert sum(shares.values()) == pytest.approx(100)


def test_one_seed_has_intervals_and_no_spread(tmp_path):
    study = made_study(tmp_path / "study", seeds=1, failed=())
    told = Recommendation(
        "Take <this>.", ["It is better."], [Finding("Found: 1.", ["<a>"]), Finding("Not decided: nothing.", [])]
    )
    with without_figures():
        render(replace(study, recommendation=told), tmp_path / "out")
    text = (tmp_path / "out/report.html").read_text()
    assert "±" not in text
    assert "Bands are 95 % intervals over sentences." in text
    assert "Take &lt;this&gt;." in text
    assert '<p>Found: 1.</p>\n<ul class="findings">\n<li>&lt;a&gt;</li>\n</ul>\n<p>Not decided: nothing.</p>' in text
    assert text.count("findings") == 1  # an empty list is none
    assert "It is better." in text
    with (tmp_path / "out/figures/figure-4a.csv").open(newline="") as stream:
        (first, *_) = csv.DictReader(stream)
    (interval,) = [
        each["intervals"]["overall"]["bleu"] for each in analysed(study)["systems"] if each["name"] == "Transformer"
    ]
    assert [float(first["low"]), float(first["high"])] == interval


def test_what_bands_are_is_said_of_one_seed_and_of_several(tmp_path):
    """While a study runs, some systems have one seed and others two."""
    study = made_study(tmp_path / "study", failed=())
    both = "Means over seeds; bands go from the lowest to the highest seed."
    (legend,) = (plate.legend for plate in plates(study) if plate.title == "Figure 4")
    assert both in legend
    del study.measured["test"].places["transformer", "all"][2]
    (legend,) = (plate.legend for plate in plates(study) if plate.title == "Figure 4")
    assert f"{both[:-1]}; those of a single seed are 95 % intervals over sentences." in legend


def test_the_page_is_whole_escaped_and_needs_no_network(report, page):
    text = (report / "report.html").read_text()
    assert page.open == []
    assert "<b>1</b>" not in text
    assert "says &lt;b&gt;1&lt;/b&gt;" in text
    assert "Positions &amp; &lt;lengths&gt;" in text
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text)
    assert [(report / link).resolve().is_file() for link in page.links if link[0] != "#"] == [True, True]
    assert text.count('<script type="module">') == text.count('http-equiv="Content-Security-Policy"') == 1
    assert page.links[:5] == ["#claims", "#tables", "#figures", "#beyond", "#made"]
    assert "Of the paper's claims: 1 supported (1 after Holm), 1 undecided." in html.unescape(text)
    assert "1 supported (1 after Holm), 1 undecided" in text
    assert page.row("claim-1", "Test: Supported: it is. 60 sentences.")[:2] == [
        "+3.14 BLEU",
        "−1.20 BLEU to +5.00 BLEU",
    ]
    assert page.row("claim-1", "Supported: its share is. By a share.")[:2] == ["−5.53 %", "−7.00 % to −4.00 %"]
    of_claims = re.findall(r"compatible with the published effect, whatever the verdict: ([^<]*)<", text)
    assert [each.partition(":")[0] for each in of_claims] == [
        "yes, but the published effect is imprecise",
        "not comparable",
    ]
    assert page.row("claim-2", "Undecided: whether it is. One seed.")[:2] == ["–", "–"]
    assert "All trainings together: 6 h 10 min." in text


def test_p_is_shown_before_and_after_holm_and_welch_beside(page, report):
    """The undecided claim counts in the family of two."""
    first, second, (_, undecided) = page.tables["claim-1"][1], page.tables["claim-1"][2], page.tables["claim-2"]
    assert [text for _, text in first[3:]] == ["0.012", "+1.04 BLEU to +4.96 BLEU"]
    assert [text for _, text in second[3:]] == [text for _, text in undecided[3:]] == ["–", "–"]
    text = html.unescape((report / "report.html").read_text())
    assert "60 sentences. After Holm p = 0.024." in text
    assert text.count('<span class="word">supported after Holm</span>') == 1


def test_a_claim_says_that_not_all_of_its_comparisons_have_its_verdict(study, report, tmp_path):
    first, second = study.verdicts
    assert "<summary>Comparisons (2)</summary>" in (report / "report.html").read_text()
    mixed = replace(first, comparisons=[*first.comparisons, *second.comparisons])
    with without_figures():
        render(replace(study, verdicts=[mixed]), tmp_path)
    assert "<summary>Comparisons (3: 2 supported, 1 undecided)</summary>" in (tmp_path / "report.html").read_text()


def test_the_processors_are_those_of_the_trainings(study):
    def shown(*names):
        runs = [{**run, "processor": name} for run, name in zip(study.runs, names, strict=False)]
        return dict(facts(replace(study, runs=runs), "")).get("Processors")

    assert "Processors" not in dict(facts(study, ""))
    assert shown("old", "new", None, "new") == "new (2), old (1)"
    assert shown("old", "old") == "old"


def test_the_longest_pair_is_the_one_in_training_and_not_the_limit(study):
    def shown(*lengths):
        runs = [{**run, "longest_pair": length} for run, length in zip(study.runs, lengths, strict=True)]
        return dict(facts(replace(study, runs=runs), ""))["Longest pair in training, in subwords"]

    trainings = [run["training"] for run in study.runs]
    assert shown(*(38 for _ in trainings)) == "38 (limit 100)"
    assert (
        shown(*(38 if name == "all" else None for name in trainings))
        == "all: 38 (limit 100); Short: not known (limit 100)"
    )
    own = [29 + number if name == "all" else 12 for number, name in enumerate(trainings)]
    assert shown(*own) == f"all: 29 to {max(own)} (limit 100); Short: 12 (limit 100)"


@pytest.mark.parametrize(
    ("corpus", "name"),
    [
        ({"source": "folder/a.{source}.xz", "target": "folder/a.{target}.xz"}, "folder/a"),
        ({"public": {"name": "newstest2014-de-en"}}, "newstest2014-de-en"),
    ],
)
def test_the_page_says_which_part_of_a_corpus_is_used(study, corpus, name):
    def shown(**part):
        setting = study.recipe.scales["smoke"].model_copy(
            update={"artificial": None, "corpora": {"train": Text(**corpus, **part)}}
        )
        recipe = study.recipe.model_copy(update={"scales": {"smoke": setting}})
        return dict(facts(replace(study, recipe=recipe, corpora={}), ""))["Corpora"]

    assert shown() == f"train: {name}"
    assert shown(take=1000) == f"train: {name} (1,000 pairs of it)"
    assert shown(join=2, take=1000) == f"train: {name}, 2 consecutive lines joined (1,000 pairs of it)"
    assert shown(lines=[11, 2000], join=3) == f"train: {name} lines 11 to 2,000, 3 consecutive lines joined"


def test_a_training_that_two_systems_share_counts_once(study):
    runs = [{**run, "processor": name} for run, name in zip(study.runs, ("old", "new"), strict=False)]
    shared = replace(study, runs=[*runs, {**runs[0], "system": "another"}])
    assert shared.trainings == runs
    assert dict(facts(shared, ""))["Processors"] == "old (1), new (1)"


@pytest.mark.parametrize(("published", "name"), [(False, "results.sqlite"), (True, "results.csv.xz")])
def test_the_page_names_the_file_of_all_figures(study, tmp_path, published, name):
    with without_figures():
        render(replace(study, published=published), tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert f"<code>{name}</code>" in text
    assert (f"measured is in {name}" in text) == published


def test_latex_is_escaped_and_whole(report):
    texts = {path.stem: path.read_text() for path in (report / "tables").glob("*.tex")}
    assert "+Relative\\_PE \\& \\textless{}more\\textgreater{}" in texts["table-1"]
    assert "{[}4,418 (0.45$\\times$){]}" in texts["table-1"]
    for text in texts.values():
        assert text.isascii()
        plain = re.sub(r"\\[\\&%$#_{}]", "", text)
        assert plain.count("{") == plain.count("}")
        for tabular in re.findall(r"\\begin{tabular}{@{}(\w+)@{}}(.*?)\\end{tabular}", text, re.DOTALL):
            spans = [
                len(re.findall(r"(?<!\\)&", line))
                + sum(int(span) - 1 for span in re.findall(r"multicolumn{(\d+)}", line))
                for line in tabular[1].splitlines()
                if line.endswith("\\\\")
            ]
            assert set(spans) == {len(tabular[0]) - 1}


def test_wide_tables_go_on_below_between_groups():
    heads = [Head("BLEU", f"{first}-") for first in range(6) for _ in range(3)]
    grid = Grid(heads, [Row("one", [Cell(own=str(number)) for number in range(18)])])
    text = to_latex(Sheet("wide", "Table 1", "Wide", [grid]))
    assert re.findall(r"{@{}(l\w+)@{}}", text) == ["l" + "r" * 9] * 2


@pytest.mark.parametrize(
    ("figures", "unit", "shown"),
    [
        ([27.24, 27.1, None], 1, ["27.24", "27.10", ""]), ([21, 22.35], 1, ["21.00", "22.35"]),
        (["28.03++", 27.5, "N/A"], 1, ["28.03++", "27.50", "N/A"]), ([11.7, 9.9], 1000, ["11.7K", "9.9K"]),
        ([70521476, -3], 1, ["70,521,476", "−3"]),
    ],
)  # fmt: skip
def test_published_figures_are_shown_as_the_paper_has_them(figures, unit, shown):
    assert published.texts(figures, unit) == shown


def test_published_texts_are_numbers_too():
    assert published.value("28.03++") == 28.03
    assert published.value("3,661,035 (4,468,840)") == 3661035
    assert published.value("97.35M", 1e6) == pytest.approx(97.35e6)
    assert published.value("N/A") is None
    assert published.show(9912.4, "training_speed", 1000, 1) == "9,912"
    assert published.show(97_353_000, "parameters", 1e6, 2) == "97.35M"
    assert published.show(97_353_000, "parameters") == "97,353,000"
    assert published.show(-0.004, "length_difference") == "0.00"
    assert published.show(1.234, "length_difference") == "+1.23"
    assert published.show_spread(1.234, "length_difference") == "±1.23"


def test_the_same_results_give_the_same_bytes(study, report, tmp_path):
    again = tmp_path / report.name
    render(study, again)
    made = {path.relative_to(report): path for path in report.rglob("*") if path.is_file()}
    assert len(made) > 30
    for name, path in made.items():
        if name.name != "report.html":
            assert (again / name).read_bytes() == path.read_bytes()
    linked = [re.sub(r'href="[^"#]*/steps/', 'href="', (out / "report.html").read_text()) for out in (again, report)]
    assert linked[0] == linked[1]


@pytest.mark.parametrize("name", sorted(shipped()))
@pytest.mark.parametrize("place", [0, -1])
def test_every_shipped_recipe_is_reported_before_anything_is_measured(name, place, tmp_path):
    recipe = load(name)
    scale = list(recipe.scales)[place]  # the smallest and the largest
    missing = dict.fromkeys(recipe.analyses, "nothing was made yet")
    with without_figures():
        render(StudyResults(recipe=recipe, scale=scale, runs=[], analyses={}, missing=missing), tmp_path)
    page = Page((tmp_path / "report.html").read_text())
    figures = [text for table in recipe.tables for column in table.columns
               for text in published.texts(column.published, column.published_unit) if text]  # fmt: skip
    shown = " ".join(text for table in page.tables.values() for row in table for _, text in row)
    assert [figure for figure in figures if figure not in shown] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "by-length", "rows": ["a"]}, "by-length needs an analysis, or published figures"),
        ({"kind": "by-length", "rows": ["a"], "published": [[1]]}, "need published_columns"),
        ({"kind": "parts", "rows": ["a"], "published": [[1, 2]]}, "every row of `published` needs 4 figures"),
        ({"rows": ["a"], "columns": [{"title": "x", "measure": "blue"}]}, "measure"),
        ({"rows": ["a"], "columns": [{"title": "x"}], "cited": {"b": [1, 2]}}, "cited 'b' has 2 figures for 1 columns"),
        (
            {"rows": ["a"], "columns": [{"title": "x"}], "marks": [{"baseline": "b", "analysis": "test"}]},
            "not one of the",
        ),
    ],
)
def test_tables_that_cannot_be_drawn_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Table.model_validate({"table": 1, "caption": "c", **change})


def test_the_speed_of_decoding_is_source_subwords_a_second(tmp_path):
    """By hand, of a training that is done and has translated one of two tests."""
    run, translated = tmp_path / "train", tmp_path / "translate"
    (run / "run").mkdir(parents=True)
    translated.mkdir()
    lengths = {"source": {"shortest": 2, "longest": 9}, "target": {"shortest": 1, "longest": 12}}
    record = {"training_lengths": lengths, "posnmt": "0", "parameters": 7, "machine": {"processor": "a core"}}
    (run / "run" / "record.json").write_text(json.dumps({**record, "seconds": 5.0, "steps": 20}))
    (run / "run" / "config.yaml").write_text("")
    speeds = [{"kind": "train", "source_tokens_per_second": speed} for speed in (1.0, 80.0, 90.0)]
    (run / "run" / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in speeds))
    (translated / "speed.json").write_text(json.dumps({"output": {"source_subwords": 600, "seconds": 4.0}}))
    planned = PlannedRun("rnn", "all", 1, "train", {"test": "translate", "joined": "not made"})
    known = _run(planned, "key of train", State("train", "done"), {"train": run, "translate": translated})
    assert known["decoding_speed"] == {"test": 150.0}
    assert (known["training_speed"], known["seconds"], known["updates"]) == (80.0, 5.0, 20)
    assert (known["source_lengths"], known["longest_pair"], known["processor"]) == ([2, 9], 12, "a core")
    assert (known["run"], known["state"], known["error"]) == ("key of train", "done", None)
