"""`posnmt show`."""

from __future__ import annotations

from pathlib import Path

import click

from posnmt.base.extras import requires
from posnmt.cli.group import COMMAND, allow_plugins, loading
from posnmt.cli.help import Command, option


@click.command(cls=Command, heading="Compare", context_settings=COMMAND)
@click.argument("runs", metavar="[NAME=]RUN...", nargs=-1, required=True)
@option(
    "--source",
    type=click.Path(path_type=Path),
    help="source lines to show (plain, .gz, .xz); default: the dev pairs of the first run",
    heading="Files",
)
@option(
    "--target",
    type=click.Path(path_type=Path),
    help="their translations, line by line; default with --source: each model's own translations",
    heading="Files",
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("show"),
    help="folder for report.html and figures",
    heading="Files",
)
@option(
    "--lines", type=click.IntRange(min=1), default=50, help="most lines that means are taken over", heading="Drawing"
)
@option(
    "--sentences",
    type=click.IntRange(min=0),
    default=1,
    help="number of lines that are drawn with their words",
    heading="Drawing",
)
@option(
    "--length",
    type=click.IntRange(2, 1024),
    metavar="N",
    help="number of positions and distances to draw; default: twice the longest training sentence, 32 to 256",
    heading="Drawing",
)
@allow_plugins
def show(
    runs: tuple[str, ...],
    source: Path | None,
    target: Path | None,
    out: Path,
    lines: int,
    sentences: int,
    length: int | None,
) -> None:
    """Draw what the position schemes of trained models do.

    Writes a page, and prints its path.

    The page shows what the models allow: attention of each head with words and by distance, the terms that positions
    add to the logits, similarity of position vectors, penalties of reordering embeddings, the reach of a moved word in
    a recurrence, the tokens that CoPE counts, and norms of trained vectors. Positions that training did not have are
    marked. Several runs are drawn side by side, on the same lines.

    \b
    Example: posnmt show runs/absolute runs/relative --source test.en
             --target test.de --out show
    """
    requires("analyse", "train")  # the dev text and the lengths of training are in a store
    with loading():
        from posnmt.base.files import named_folders
        from posnmt.base.progress import Display
        from posnmt.evaluation.show.command import show as draw

    folders = named_folders(runs, "runs")
    with Display() as display:
        page = draw(folders, source, target, out, lines, sentences, length, display)
    click.echo(str(page))
