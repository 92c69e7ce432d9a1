"""Figures as pictures of PGF: LaTeX sets their words in the font of the document, and draws the rest.

matplotlib's own backend for PGF measures words with an installed LaTeX. Here they are measured in the font of the
other formats, so that no LaTeX is needed; LaTeX places each word by its anchor.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from posnmt.evaluation.report.latex import escape, with_letters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDS = r"% needs \usepackage{pgf}"


def picture(figure: Figure) -> str:
    """The text of a `pgfpicture`, for `\\input`."""
    from matplotlib.backends.backend_pgf import RendererPgf
    from matplotlib.textpath import text_to_path

    class Renderer(RendererPgf):
        """Measures words without LaTeX, and escapes any text."""

        def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> tuple[float, float, float]:
            width, height, descent = text_to_path.get_text_width_height_descent(s, prop, ismath)
            points = self.points_to_pixels(1)
            return width * points, height * points, descent * points

        def draw_text(
            self, gc: Any, x: float, y: float, s: str, prop: Any, angle: float, ismath: Any = False, mtext: Any = None
        ) -> None:
            size = prop.get_size_in_points()
            shape = r"\itshape" if prop.get_style() == "italic" else ""
            colour = ",".join(f"{part:.3f}" for part in gc.get_rgb()[:3])
            at, anchor = (x, y), ["left", "base"]
            if mtext is not None and angle == 0:  # one line, whose width in LaTeX is another one
                across = mtext.get_horizontalalignment()
                ends = {"left": x, "right": x + self._width(s, prop), "center": x + self._width(s, prop) / 2}
                at, anchor = (ends[across], y), [across, "base"]
            words = rf"\fontsize{{{size:g}}}{{{1.2 * size:g}}}\selectfont{shape}{{}}{escape(s)}"
            where = [f"x={at[0] / self.dpi:.4f}in", f"y={at[1] / self.dpi:.4f}in", *anchor, f"rotate={angle:g}"]
            faded = "" if (alpha := gc.get_alpha()) == 1 else rf"\pgfsetfillopacity{{{alpha:.2f}}}"
            options = ",".join(option for option in where if option != "center")
            self.fh.write(
                rf"\begin{{pgfscope}}\definecolor{{textcolor}}{{rgb}}{{{colour}}}{faded}"
                rf"\pgftext[{options}]{{\color{{textcolor}}{words}}}\end{{pgfscope}}%" + "\n"
            )

        def _width(self, text: str, prop: Any) -> float:
            return self.get_text_width_height_descent(text, prop, False)[0]

    text = io.StringIO()
    width, height = figure.get_size_inches()
    figure.draw(Renderer(figure, text))
    return with_letters(
        "\n".join(
            [
                NEEDS,
                r"\begingroup\makeatletter\begin{pgfpicture}%",
                rf"\pgfpathrectangle{{\pgfpointorigin}}{{\pgfqpoint{{{width:.4f}in}}{{{height:.4f}in}}}}%",
                r"\pgfusepath{use as bounding box}%",
                text.getvalue() + r"\end{pgfpicture}\makeatother\endgroup%",
                "",
            ]
        )
    )
