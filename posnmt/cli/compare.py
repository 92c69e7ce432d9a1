"""`posnmt compare`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posnmt.base.extras import requires
from posnmt.cli.group import COMMAND, NumberRange, loading
from posnmt.cli.help import Command, option

if TYPE_CHECKING:
    from posnmt.study.comparison import Plan

PATH = click.Path(path_type=Path)
PLACES = (("chrF", "on trained lengths"), ("chrF", "on longer ones"), ("nats a subword", "of loss by position (D1)"))
"""Units of what is compared, and where, in the order of the plan."""


@click.command(cls=Command, heading="Compare", context_settings=COMMAND)
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@option(
    "--systems",
    metavar="NAME,NAME",
    help="from `posnmt systems`; default: those of the recipe `choose` (posnmt study list)",
    heading="Systems",
)
@option("--seeds", type=click.IntRange(min=1), default=3, help="trainings of each system", heading="Systems")
@option(
    "--hours",
    type=NumberRange(min=0, min_open=True),
    help="how long all of it takes at this machine's present speed; default: as many passes as `posnmt train` makes",
    heading="Run",
)
@option("--out", type=PATH, required=True, help="the folder of the comparison, which is a study's", heading="Run")
@option("--plan", "only_plan", is_flag=True, help="only plan, and show the plan", heading="Run")
@option(
    "--cap",
    type=click.IntRange(min=1),
    help="longest training sentence on either side, in subwords; default: a cap that keeps three quarters of single "
    "sentences",
    heading="Texts",
)
@option(
    "--dev",
    type=PATH,
    nargs=2,
    metavar="SOURCE TARGET",
    help="a dev text; default: held out of the corpus",
    heading="Texts",
)
@option(
    "--test",
    type=PATH,
    nargs=2,
    metavar="SOURCE TARGET",
    help="a test; default: held out of the corpus",
    heading="Texts",
)
@option(
    "--documents",
    type=PATH,
    metavar="FILE",
    help="the document of each line of the corpus, so that whole ones are held out; default: blocks of 20 lines",
    heading="Texts",
    common=False,
)
@option(
    "--source-language",
    metavar="CODE",
    help="language of the source; default: the ending of the file name, as in train.en",
    heading="Texts",
    common=False,
)
@option(
    "--target-language",
    metavar="CODE",
    help="language of the target; default: the ending of the file name, as in train.de",
    heading="Texts",
    common=False,
)
@option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="a setting of every training; default: none",
    heading="Systems",
)
def compare(
    source: Path,
    target: Path,
    systems: str | None,
    seeds: int,
    hours: float | None,
    out: Path,
    only_plan: bool,
    cap: int | None,
    dev: tuple[Path, Path] | None,
    test: tuple[Path, Path] | None,
    documents: Path | None,
    source_language: str | None,
    target_language: str | None,
    settings: tuple[str, ...],
) -> None:
    """Train systems on a corpus, and compare them by length.

    SOURCE and TARGET are the two sides of the corpus, line by line. Training has the pairs up to a cap of length. The
    test has held-out lines of one sentence, within the cap and beyond it. The plan comes first: it is printed, and
    written as a recipe into the folder. The same command continues where it was stopped.

    \b
    Example: posnmt compare train.en train.de --systems transformer,relative
             --hours 6 --out compared
    """
    requires("train", "analyse")
    with loading():
        from posnmt.base.progress import Display
        from posnmt.study.comparison import RECIPE, Request, outcome, planned, run, was_changed

    names = None if systems is None else [name.strip() for name in systems.split(",")]
    languages = (source_language, target_language)
    request = Request(source, target, names, seeds, hours, cap, dev, test, documents, languages, settings)
    with Display() as display:
        kept = planned(request, out, display.say)
        for term, text in () if was_changed(kept, out) else _rows(kept["plan"]):
            display.say(f"{term:12} {text}")
        if only_plan:
            display.say("The same command without --plan trains. The recipe may be changed first.")
            click.echo(str(out / RECIPE))
            return
        summary = run(kept, out, display.say)
    for line in outcome(out):
        click.echo(line)
    if summary.failed:
        sys.exit(1)


def _rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """The plan as a table of terms and texts."""
    from posnmt.base.progress import duration
    from posnmt.study.hours import total

    units = "blocks of lines" if plan["blocks"] else "documents"
    yield "corpus", f"{plan['pairs']:,} pairs: {plan['trained']:,} for training"
    chosen = (
        "three quarters of the pairs of one sentence have no more; --cap sets another" if plan["is_chosen"] else "--cap"
    )
    kept = f"{plan['kept']:,} training pairs and {plan['developed']:,} dev pairs have no more"
    longer = f"{plan['trained'] - plan['kept']:,} longer training pairs are left out"
    yield "cap", f"{plan['cap']} subwords on either side ({chosen})"
    yield "training", f"{kept}; {longer}"
    lengths = f"{plan['longest'] + 1} to {plan['longest_tested']} subwords"
    test = f"{plan['seen']:,} sentences of trained lengths, and {plan['longer']:,} longer ones ({lengths})"
    yield "test", f"{test}, from {plan['documents']:,} {units}"
    left = {"empty": plan["blank"], "in training": plan["repeated"], "of several sentences": plan["several"]}
    if counts := [f"{count:,} {what}" for what, count in left.items() if count]:
        yield "left out", f"of the test's lines: {', '.join(counts)}"
    model = f"{plan['width']} wide, dropout {plan['dropout']:g}, {plan['vocabulary']:,} subwords"
    yield "model", f"{model}, batches of {plan['batch']:,} subwords"
    yield "trainings", f"{len(plan['systems']) * plan['seeds']}: {', '.join(plan['systems'])}, {plan['seeds']} of each"
    yield "updates", f"{plan['updates']:,} of each training, about {plan['passes']:.2g} passes"
    yield "expect", f"{plan['expects']}. Outputs of a system below {plan['floor']:g} BLEU are not compared"
    yield "could find", _finds(plan)
    parts = {name: duration(3600 * plan["hours"][name]) for name in ("training", "testing", "others")}  # type: ignore[literal-required]
    limit = "" if plan["limit"] is None else f" of {plan['limit']:g} hours"
    at_once = f"{plan['hours']['workers']} trainings at a time"
    time = f"about {duration(3600 * total(plan['hours']))}{limit}, with {at_once}, if this machine stays as fast as now"
    others = f"speeds, analyses and the report {parts['others']}"
    yield "time", f"{time}: training {parts['training']}, testing {parts['testing']}, {others}"


def _finds(plan: Plan) -> str:
    """What difference the comparison could find."""
    sizes = [
        f"{f'about {size:.2g} {unit}' if size else 'nothing'} {where}"
        for (unit, where), size in zip(PLACES, plan["finds"].values(), strict=True)
    ]
    found = f"{', '.join(sizes)}, each in 4 of 5 such comparisons"
    if plan["seeds"] != plan["found_by"]:
        found = f"nothing, since one seed says nothing of others; with --seeds {plan['found_by']}: {found}"
    return f"{found} (an estimate: figures may vary more here than in our studies of captions and short sentences)"
