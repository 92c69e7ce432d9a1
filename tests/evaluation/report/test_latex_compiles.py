"""The LaTeX tables compile with a real LaTeX: one document with all tables of an analysis."""

import shutil
import subprocess
from pathlib import Path

import pytest

from posnmt.evaluation.report.latex import Block, Cell, escape, table
from tests.support.report_case import everything, without_figures

DOCUMENT = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""
# Nothing that LaTeX does not know, and nothing that is wider than its column by more than a letter's width.
FAULTS = ("! ", "LaTeX Error", "Undefined control sequence", "multiply defined", "Missing character")


def compiled(folder: Path, files):
    """The log of pdfLaTeX for a document of these files, and how far its boxes are too wide, in points."""
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("there is no LaTeX: install texlive-latex-base and texlive-latex-recommended")
    inputs = "\n".join(rf"\input{{{path.stem}}}\clearpage" for path in files)
    (folder / "document.tex").write_text(DOCUMENT % inputs, encoding="ascii")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "document.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=300)
    log = (folder / "document.log").read_text(encoding="latin-1")
    assert done.returncode == 0, log[-3000:]
    assert not [line for line in log.splitlines() if any(fault in line for fault in FAULTS)]
    return [line for line in log.splitlines() if line.startswith("Overfull")]


def test_every_table_of_an_analysis_compiles(tmp_path):
    with without_figures():
        everything(tmp_path, correction="holm")
    folder = tmp_path / "out" / "tables"
    files = sorted(folder.glob("*.tex"))
    assert len(files) >= 6
    assert compiled(folder, files) == []


def test_any_text_compiles(tmp_path):
    texts = [
        r"100 % & $x_1^2$ #1 ~ {a} \b", "[x] * 'a' \"b\" `c` <d> |e|", "Größe, façade, Łódź, naïve, ő, İ, ḍ",
        "東京 नमस्ते 🙂", "\u2068שלום\u2069 – — − ß æ Œ ø ı",
        "a\N{NO-BREAK SPACE}b -- ?` !` ,, fi", "e\u0301\u0323 \u0301",
    ]  # fmt: skip
    rows = [[escape(text), escape(text)] for text in texts]
    block = Block([[Cell(escape(text)) for text in ("[name]", "*")]], rows)
    path = tmp_path / "any.tex"
    path.write_text(table([block, block], escape(" ".join(texts)), "any"), encoding="ascii")
    compiled(tmp_path, [path])


@pytest.mark.parametrize(
    ("cell", "columns", "environment"),
    [
        ("0.932 $\\pm$ 0.008", 5, "table*"),
        (r"$\sim$", 12, "table"),
        (r"\textit{ab}", 10, "table"),
        (r"{\scriptsize $-$0.83 to $-$0.70}", 5, "table*"),
    ],
)
def test_a_table_spans_both_columns_where_it_is_wider_than_one(cell, columns, environment):
    heading = [[Cell("x")] * columns]
    text = table([Block(heading, [["name", *[cell] * (columns - 1)]])], "Caption", "label")
    assert rf"\begin{{{environment}}}" in text
