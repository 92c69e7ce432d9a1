"""`posnmt figure`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from posnmt.base.errors import UserError
from posnmt.base.extras import requires
from posnmt.cli.group import COMMAND, loading
from posnmt.cli.help import Command, option

# The units of a width, in inches; pt are those of TeX, as in \\the\\columnwidth.
UNITS = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
NARROWEST, WIDEST = 2.0, 20.0  # as in posnmt.evaluation.report.figures.style, which imports more than --help needs
KINDS = (
    "length", "difference", "output-length", "place", "swap", "position", "position-difference", "source-length",
    "beyond",
)  # fmt: skip
FORMATS = ("pdf", "svg", "tex", "csv")


class Width(click.ParamType):
    """A width with its unit, in inches."""

    name = "width"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert a number with its unit to inches; fail below `NARROWEST` and above `WIDEST`."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(in|cm|mm|pt)", value, re.ASCII)
        if found is None:
            self.fail(
                f"{value!r} is no width: write a number and its unit, such as 5.5in, 14cm, 140mm, 397pt", param, ctx
            )
        width = float(found[1]) * UNITS[found[2]]
        if not NARROWEST <= width <= WIDEST:
            self.fail(f"{value!r} is not between {NARROWEST:g}in and {WIDEST:g}in", param, ctx)
        return width


class Formats(click.ParamType):
    """Read a list of file formats, separated by commas."""

    name = "formats"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split a value at its commas and drop duplicates; fail on a format that is not in `FORMATS`."""
        formats = value if isinstance(value, tuple) else tuple(dict.fromkeys(value.split(",")))
        for each in formats:
            if each not in FORMATS:
                self.fail(f"{each!r} is not one of {', '.join(FORMATS)}; separate several by commas", param, ctx)
        return formats


@click.command(cls=Command, heading="Compare", context_settings=COMMAND)
@click.argument("place", metavar="FOLDER", type=click.Path(path_type=Path))
@option(
    "--kind",
    type=click.Choice(KINDS),
    metavar="KIND",
    default="length",
    show_default=True,
    help="length: a measure by source length; difference: its difference from the baseline; output-length: the"
    " lengths of outputs; place: precision and recall by place in the sentence; swap: a measure by swapped words;"
    " position: the loss of references by target position; position-difference: its difference from the baseline;"
    " source-length: the loss by source length; beyond: of each system of a study, the rise in loss beyond training,"
    " and the sentences that translations leave out there",
)
@option("--measure", metavar="NAME", help="such as chrf; default: the main metric of the analysis")
@option(
    "--analysis",
    "analyses",
    multiple=True,
    metavar="NAME",
    help="an analysis or a likelihood of a study's recipe; repeat it for figures with the same vertical "
    "axis; default: the first",
)
@option(
    "--system", "systems", multiple=True, metavar="NAME", help="draw this system; repeat it for several; default: all"
)
@option(
    "--width", type=Width(), default="3.3in", show_default=True, metavar="WIDTH", help="such as 5.5in, 14cm or 397pt"
)
@option(
    "--font",
    type=click.Choice(["sans", "serif"]),
    default="sans",
    show_default=True,
    help="serif has the widths of Times",
)
@option(
    "--bands",
    type=click.Choice(["range", "sd", "ci", "none"]),
    default="range",
    show_default=True,
    help="around the means of several seeds: from the lowest to the highest, a standard deviation, or 95 % intervals;"
    " a single output has the 95 % interval of the analysis",
)
@option(
    "--format", "formats", type=Formats(), default="pdf,svg,tex", show_default=True, metavar="pdf,svg,tex,csv",
    help="tex: a figure with its caption, for LaTeX's \\input; csv: the values",
)  # fmt: skip
@option(
    "--out", type=click.Path(path_type=Path), help="name of the files, without a suffix; default: KIND, in this folder"
)
def figure(
    place: Path,
    kind: str,
    measure: str | None,
    analyses: tuple[str, ...],
    systems: tuple[str, ...],
    width: float,
    font: Any,
    bands: Any,
    formats: tuple[str, ...],
    out: Path | None,
) -> None:
    """Draw a figure for print from an analysis or a study.

    Prints the paths and the caption. FOLDER is what `posnmt analyse`, `posnmt score --by-position` or `posnmt
    study` wrote, a published copy of a study,
    or the table likelihood.csv. Words have the size of a footnote, whatever the width. Existing files are replaced.

    \b
    Example: posnmt figure analysis --kind length --width 5.5in --out length
    """
    requires("analyse")
    with loading():
        from posnmt.api.figures import figures

    if out is not None and out.suffix.removeprefix(".") in FORMATS:
        raise UserError(f"--out ends in {out.suffix}", out, f"leave the suffix out: --format {out.suffix[1:]} adds it")
    made = figures(place, kind, measure, analyses, systems, width, font, bands)
    stem = Path(kind) if out is None else out
    for each in made:
        path = stem if len(made) == 1 else stem.with_name(f"{stem.name}-{each.chart.name}")
        for name in formats:
            click.echo(str(each.save(path.with_name(f"{path.name}.{name}"))))
        click.echo(each.caption)
