"""The CSV and LaTeX files: every figure of the results, and tables that LaTeX reads whatever systems are called."""

import csv
import random
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise

import pytest

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.report.grid import Cell as GridCell
from posnmt.evaluation.report.grid import Grid, Head, Row, Sheet, dashed, with_best
from posnmt.evaluation.report.latex import Block, Cell, escape, table
from posnmt.evaluation.report.latex_sheet import to_latex
from tests.support.report_case import analysed, everything, noisy, sentences, without_figures

NAMES = [
    "a_b & c% $d$ #e {f} ~g ^h \\i",
    "[x]*",
    "<b>\"q\" 'r' `s`|",
    "Überträger – größer č ñ",
    "日本語 ∑ 🙂",
    "-- x - y",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with without_figures():
        return folder / "out", everything(folder)


@pytest.fixture(scope="module")
def corrected(tmp_path_factory):
    """With a correction, without which p and corrected p are the same."""
    folder = tmp_path_factory.mktemp("corrected")
    with without_figures():
        return folder / "out", everything(folder, correction="holm")


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    return float(text) if text else None


def test_scores_have_every_output_and_bin(whole):
    folder, results = whole
    rows = iter(rows_of(folder / "scores.csv"))
    for system in results["systems"]:
        whole_test = {"label": "all", "first": "", "last": "", "training": ""}
        for each, scores in zip([whole_test, *results["bins"]], [system["overall"], *system["bins"]], strict=True):
            row = next(rows)
            about = [each[key] for key in ("label", "first", "last", "training")]
            assert [row[key] for key in ("bin", "first", "last", "training")] == [
                "" if fact is None else str(fact) for fact in about
            ]
            assert (row["system"], int(row["n"])) == (system["name"], scores["n"])
            assert [number(row[key]) for key in ("bleu", "ter")] == [scores["bleu"], scores["ter"]]
    assert next(rows, None) is None
    firsts = [(each["first"], each["last"], each["training"]) for each in results["bins"]]
    assert firsts[:2] == [(0, 4, "seen"), (5, 9, "seen")]
    assert {training for *_, training in firsts} == {"seen", "unseen"}


def test_significance_has_every_ordered_pair(corrected):
    folder, results = corrected
    rows = rows_of(folder / "significance.csv")
    outputs = [system["name"] for system in results["systems"]]
    assert len(rows) == 2 * 3 * 5 * 4 + 2 * 2
    differ = False
    for row in rows:
        if row["test"] == "welch":
            names, found = ["a", "b"], results["seeds"]["welch"][row["metric"]]
            differences = found["differences"]
        else:
            names = outputs
            found = results["significance"]["metrics"][row["metric"]]["tests"][row["test"]]
            differences = results["significance"]["metrics"][row["metric"]]["differences"]
        one, other = names.index(row["system"]), names.index(row["other"])
        assert number(row["p"]) == found["p"][one][other]
        differ |= row["p"] != row["corrected"]
        assert number(row["corrected"]) == found["corrected"][one][other]
        assert row["mark"] == found["marks"][one][other]
        assert number(row["difference"]) == differences[one][other]
    assert differ


def test_seeds_have_every_bin_and_measure(whole):
    folder, results = whole
    rows = iter(rows_of(folder / "seeds.csv"))
    for system in results["seeds"]["systems"]:
        for label, measures in zip(
            ["all", *(each["label"] for each in results["bins"])], [system["overall"], *system["bins"]], strict=True
        ):
            for measure, found in measures.items():
                row = next(rows)
                assert (row["system"], row["bin"], row["measure"], row["seeds"]) == (
                    system["name"],
                    label,
                    measure,
                    "2",
                )
                assert {key: number(row[key]) for key in found} == found
    assert next(rows, None) is None


def test_swap_has_every_share_with_intervals(whole):
    folder, results = whole
    rows = iter(rows_of(folder / "swap.csv"))
    for curve in results["swap"]:
        for place, share in enumerate(curve["shares"]):
            row = next(rows)
            assert (row["system"], float(row["share"])) == (curve["name"], share)
            for measure in ("bleu", "ter", "length_difference", "length_ratio"):
                assert float(row[measure]) == curve[measure][place]
                interval = [float(row[f"{measure}_{end}"]) for end in ("low", "high")]
                assert interval == curve["intervals"][measure][place]
    assert next(rows, None) is None


def test_positions_have_every_place(whole):
    folder, results = whole
    rows = iter(rows_of(folder / "positions.csv"))
    differ = False
    for system in results["positions"]["systems"]:
        for kind in ("relative", "absolute"):
            for place, label in enumerate(results["positions"]["places"][kind]):
                row = next(rows)
                assert (row["system"], row["kind"], row["place"]) == (system["name"], kind, label)
                assert number(row["precision"]) == system[kind]["precision"][place]
                assert number(row["recall"]) == system[kind]["recall"][place]
                assert int(row["output_words"]) == system[kind]["n"]["precision"][place]
                assert int(row["reference_words"]) == system[kind]["n"]["recall"][place]
                differ |= row["output_words"] != row["reference_words"]
    assert next(rows, None) is None
    assert differ


def test_lengths_count_every_sentence(whole):
    folder, results = whole
    rows = rows_of(folder / "lengths.csv")
    for each in results["bins"]:
        for text, system in [("reference", ""), *(("output", system["name"]) for system in results["systems"])]:
            mine = [row for row in rows if (row["bin"], row["text"], row["system"]) == (each["label"], text, system)]
            assert sum(int(row["sentences"]) for row in mine) == each["n"]
    place = next(place for place, each in enumerate(results["length_distributions"]) if each and len(each["first"]) > 1)
    found, label = results["length_distributions"][place], results["bins"][place]["label"]
    mine = [row for row in rows if row["bin"] == label and row["text"] == "reference"]
    assert [int(row["first"]) for row in mine] == found["first"]
    # each class ends where the next one begins
    ends = [*(first - 1 for first in found["first"][1:]), found["first"][-1] + found["width"] - 1]
    assert [int(row["last"]) for row in mine] == ends


def test_files_that_would_hold_nothing_are_not_written(tmp_path):
    with without_figures():
        analysed(tmp_path, {"ours": sentences()}, resampling=Resampling(0))
    names = {path.name for path in (tmp_path / "out").iterdir()}
    files = {"results.json", "report.html", "scores.csv", "positions.csv", "words.csv", "lengths.csv"}
    assert names == {*files, "figures", "tables"}
    tables = {path.name for path in (tmp_path / "out/tables").iterdir()}
    assert tables == {
        "overall.tex", "by-length.tex", "bleu-by-length.tex", "ter-by-length.tex", "length-difference-by-length.tex",
        "length-ratio-by-length.tex", "words.tex",
    }  # fmt: skip


def test_no_table_of_an_earlier_analysis_stays(tmp_path):
    own = tmp_path / "out" / "mine.csv"
    with without_figures():
        analysed(tmp_path, {"ours": sentences(), "other": noisy(sentences(), 0.3, 1)}, resampling=Resampling(40))
        own.write_text("kept")
        assert (own.parent / "significance.csv").exists()
        analysed(tmp_path, {"ours": sentences()}, resampling=Resampling(0))
    assert {path.name for path in own.parent.glob("*.csv")} == {
        "mine.csv",
        "scores.csv",
        "positions.csv",
        "words.csv",
        "lengths.csv",
    }


def test_ranges_have_dashes_and_names_have_none():
    ranges = {"10-19": "10–19", "60-": "60 and more", "Lengths 1,000-1,999": "Lengths 1,000–1,999"}
    names = ["t5-base", "m2m100-418M", "opus-2020-02", "a-1", "big-6-6", "418-base"]
    assert {text: dashed(text) for text in [*ranges, *names]} == {**ranges, **dict(zip(names, names, strict=True))}


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("a_b & 5% $x$ #1 {y}", r"a\_b \& 5\% \$x\$ \#1 \{y\}"),
        ("~^\\", r"\textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("é ö ñ č Å ß", r"\'{e} \"{o} \~{n} \v{c} \r{A} \ss{}"),
        ("e\u0301", r"\'{e}"),
        ("[1]*", "{[}1{]}{*}"),
        ("日", r"\posnmtletter{65E5}{26085}"),
        ("\u2068a\u2069", "a"),
        ("ą", r"\posnmtletter{0105}{261}"),
    ],
)
def test_escaping(text, latex):
    assert escape(text) == latex


def cells(line):
    """The cells of a line of a tabular, which must be one, and how many columns they span."""
    assert line.endswith(r" \\")
    found = re.split(r"(?<!\\)&", line.removesuffix(r"\\"))
    spans = [re.match(r"\s*\\multicolumn\{(\d+)\}", cell) for cell in found]
    return [cell.strip() for cell in found], sum(int(span[1]) if span else 1 for span in spans)


def checked(text):
    """What LaTeX would refuse: other letters than ASCII, groups and environments left open, uneven rows."""
    assert text.isascii()
    bare = re.sub(r"\\.", "", text)
    depth = 0
    for letter in bare:
        depth += (letter == "{") - (letter == "}")
        assert depth >= 0
    assert depth == 0
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{([a-z*]+)\}", text):
        assert kind == "begin" or opened.pop() == name
        opened += [name] if kind == "begin" else []
    assert not opened
    body = text.partition(r"\begin")[2]
    assert not re.search(r"(?<!\\)[%#~]", body)
    tabulars = re.findall(r"(?s)\\begin\{tabular\}\{@\{\}(l|p\{[^}]*\})([rc]*)@\{\}\}\n(.*?)\\end\{tabular\}", text)
    assert tabulars
    for _, columns, lines in tabulars:
        assert not re.search(r"(?<!\\)[_^]", re.sub(r"\$[^$]*\$", "", lines.replace(r"\$", "")).replace(r"\^", ""))
        for line in lines.splitlines():
            if not line.startswith((r"\toprule", r"\midrule", r"\bottomrule", r"\cmidrule")):
                assert cells(line)[1] == 1 + len(columns), line
    return [[cells(line)[0] for line in lines.splitlines() if line.endswith(r"\\")] for *_, lines in tabulars]


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    """Tables of systems with names that are hard for LaTeX."""
    folder = tmp_path_factory.mktemp("hard")
    outputs = {name: noisy(sentences(), 0.1 * place, place) for place, name in enumerate(NAMES)}
    with without_figures():
        analysed(folder, outputs, {(NAMES[0], 0.1): sentences()}, max_trained_length=14, bin_width=1)
    return folder / "out"


def test_tables_are_well_formed_whatever_the_names(hard, whole):
    for folder in (hard, whole[0]):
        files = sorted((folder / "tables").iterdir())
        assert len(files) > 10
        for path in files:
            checked(path.read_text(encoding="ascii"))


def test_the_overall_table_has_the_scores_and_marks_against_the_first_output(whole):
    folder, results = whole
    (rows,) = checked((folder / "tables/overall.tex").read_text())
    by_name = {row[0]: (row[1], below[1]) for row, below in pairwise(rows[1:]) if row[0]}
    assert list(by_name) == ["a (2 seeds)", "b (2 seeds)", "c"]
    score, interval = results["systems"][4]["overall"]["bleu"], results["systems"][4]["intervals"]["overall"]["bleu"]
    assert by_name["c"][0].startswith(f"{score:.1f}")
    assert by_name["c"][1] == rf"{{\scriptsize {interval[0]:.1f} to {interval[1]:.1f}}}"
    marks = results["significance"]["metrics"]["bleu"]["tests"]["paired_bootstrap"]["marks"]
    against = {mark for row in marks[2:4] for mark in row[:2]}
    assert (r"\textsuperscript{$<$}" in by_name["b (2 seeds)"][0]) == (against <= {"<", "<<"} and against != {"<<"})
    of_seeds = results["seeds"]["systems"][0]["overall"]["bleu"]
    assert by_name["a (2 seeds)"][0] == rf"\textbf{{{of_seeds['mean']:.1f} $\pm$ {of_seeds['deviation']:.1f}}}"


def test_by_length_stands_as_in_rosendahl_et_al(whole):
    folder, results = whole
    blocks = checked((folder / "tables/by-length.tex").read_text())
    rows = blocks[0]
    assert rows[1][1] == rf"\multicolumn{{2}}{{c}}{{n = {results['bins'][0]['n']}}}"
    assert rows[2][:3] == ["System", "BLEU", "TER"]
    assert [row[0] for row in rows[3:]] == ["a", "b", "c"]
    assert results["bins"][0]["n"] < FEWEST_SENTENCES
    last = [f"({results['systems'][4]['bins'][0][metric]:.1f})" for metric in ("bleu", "ter")]
    assert rows[5][1:3] == last


def test_the_matrix_is_that_of_neishi_and_yoshinaga(whole):
    folder, results = whole
    (rows,) = checked((folder / "tables/significance-bleu-paired-bootstrap.tex").read_text())
    names = [system["name"] for system in results["systems"]]
    assert rows[0] == ["System", *names]
    signs = {">>": r"$\gg$", "<<": r"$\ll$", ">": "$>$", "<": "$<$", "~": r"$\sim$", "": ""}
    marks = results["significance"]["metrics"]["bleu"]["tests"]["paired_bootstrap"]["marks"]
    assert [row[1:] for row in rows[1:]] == [[signs[mark] for mark in of_row] for of_row in marks]


def test_seeds_and_swaps(whole):
    folder, results = whole
    (rows,) = checked((folder / "tables/seeds.tex").read_text())
    assert [row[0] for row in rows if row[0]] == ["Output", "a:1", "a:2", "b:1", "b:2"]
    assert rows[1][1] == f"{results['systems'][0]['overall']['bleu']:.1f}"
    (rows,) = checked((folder / "tables/bleu-by-swap.tex").read_text())
    assert rows[0] == ["BLEU", r"0 \%", r"10 \%", r"30 \%"]
    curve = next(curve for curve in results["swap"] if curve["name"] == "c")
    assert rows[2] == ["c", *(f"{value:.1f}" for value in curve["bleu"])]


def test_a_table_too_wide_goes_on_below(hard):
    blocks = checked((hard / "tables/bleu-by-length.tex").read_text())
    assert len(blocks) > 1
    assert {tuple(row[0] for row in rows) for rows in blocks} == {("BLEU", "n", *map(escape, NAMES))}


def test_differences_have_every_pair_bin_and_measure(whole):
    folder, results = whole
    rows = iter(rows_of(folder / "differences.csv"))
    assert [(pair["system"], pair["other"]) for pair in results["differences"]] == [("a", "b"), ("a", "c"), ("b", "c")]
    for pair in results["differences"]:
        for label, measures in zip(
            ["all", *(each["label"] for each in results["bins"])], [pair["overall"], *pair["bins"]], strict=True
        ):
            for measure, figures in measures.items():
                row = next(rows)
                assert [row[key] for key in ("system", "other", "bin", "measure")] == [
                    pair["system"], pair["other"], label, measure,
                ]  # fmt: skip
                assert [number(row[key]) for key in ("difference", "low", "high")] == (figures or [None] * 3)
    assert next(rows, None) is None


def test_a_matrix_of_many_names_has_numbers_above():
    names = [f"system with a long name {number}" for number in range(3)]
    rows = [Row(name, [GridCell(own=mark) for mark in ("", ">>", "~")]) for name in names]
    text = to_latex(Sheet("m", "M", "m", [Grid([Head(name) for name in names], rows, matrix=True)]))
    (lines,) = checked(text)
    assert lines[0] == ["System", "1", "2", "3"]
    assert lines[1] == [f"1 {names[0]}", "", r"$\gg$", r"$\sim$"]


def test_groups_of_columns_stay_together_where_a_table_goes_on():
    heads = [Head(measure, f"{first}-") for first in range(7) for measure in ("BLEU", "TER")]
    grid = Grid(heads, [Row("one", [GridCell(own=str(number)) for number in range(14)])])
    blocks = checked(to_latex(Sheet("wide", "Wide", "wide", [grid])))
    assert [len(rows[1]) - 1 for rows in blocks] == [8, 6]


def test_what_spans_columns_is_underlined():
    text = table([Block([[Cell("x"), Cell("y", 2)], [Cell(""), Cell("p"), Cell("q")]], [["a", "1", "2"]])], "c", "l")
    assert r"\cmidrule(lr){2-3}" in text
    assert r"\label{tab:l}" in text
    checked(text)


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed: apt-get install texlive-latex-base"
)
def test_latex_reads_all_tables(hard, whole, tmp_path):
    inputs = [rf"\input{{{path}}}\clearpage" for folder in (hard, whole[0]) for path in (folder / "tables").iterdir()]
    lines = [r"\documentclass[twocolumn]{article}", r"\usepackage{booktabs}", r"\begin{document}", *inputs]
    (tmp_path / "all.tex").write_text("\n".join([*lines, r"\end{document}"]) + "\n", encoding="ascii")
    command = ["pdflatex", "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_best_figures_of_each_column_are_marked_also_where_they_are_shown_alike():
    draw = random.Random(2)
    for _ in range(100):
        higher = [draw.choice([True, False, None]) for _ in range(4)]
        rows = [
            [
                GridCell() if draw.random() < 0.2 else GridCell(f"{mean:.1f} ± 0.1", mean=mean, few=draw.random() < 0.2)
                for mean in (draw.choice([1.02, 1.04, 0.9, 1.2]) for _ in higher)
            ]
            for _ in range(3)
        ]
        for column, direction in enumerate(higher):
            cells = [row[column] for row in rows]
            compared = [round(cell.mean, 1) for cell in cells if cell.mean is not None and not cell.few]
            best = None if direction is None or len(compared) < 2 else (max if direction else min)(compared)
            expected = [
                best is not None and cell.mean is not None and not cell.few and round(cell.mean, 1) == best
                for cell in cells
            ]
            assert [row[column].best for row in with_best(rows, higher)] == expected
    sheet = Sheet("s", "t", "c", [Grid([Head("BLEU")], [Row("a", [GridCell("3.0", mean=3.0, best=True)])])])
    assert r"a & \textbf{3.0} \\" in to_latex(sheet)
    assert "In bold" in to_latex(sheet)


def test_the_best_score_of_each_metric_is_bold_and_lengths_have_none(whole):
    folder, results = whole
    text = (folder / "tables" / "overall.tex").read_text(encoding="ascii")
    means = {each["name"]: each["overall"] for each in results["seeds"]["systems"]}
    means["c"] = {name: {"mean": results["systems"][4]["overall"][name]} for name in ("bleu", "ter")}
    best = [
        f"{choose(each[name]['mean'] for each in means.values()):.1f}" for name, choose in (("bleu", max), ("ter", min))
    ]
    found = re.findall(r"\\textbf\{([0-9.]+)", text)
    assert found == best


def test_a_table_continues_below_where_it_is_wider_than_a_page():
    ends = {"spread": "−100.00 to +100.00", "low": -100.0, "high": 100.0}
    heads = [Head(str(number), about="n = 1,000") for number in range(9)]
    grid = Grid(heads, [Row("a system", [GridCell("1.00", mean=1.0, **ends) for _ in heads])])
    wide, narrow = (
        to_latex(Sheet("s", "t", "c", [each]))
        for each in (grid, replace(grid, rows=[Row("a system", [GridCell("1.00", mean=1.0) for _ in heads])]))
    )
    assert (wide.count(r"\begin{tabular}"), narrow.count(r"\begin{tabular}")) == (3, 1)
    assert wide.count("100.00 to") == len(heads)
    assert r"n & 1,000 & 1,000" in narrow
