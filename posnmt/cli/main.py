"""The command line: a thin function for each command. Heavy imports are inside the commands, so that --help is fast.

Exit status: 0 success; 1 internal error, with a traceback; 2 user error, with one line per fault on standard error; 130
interrupted, with the state saved; 141 the program that reads the output has ended (`streams.py`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

import click

from posnmt.base.errors import UserError
from posnmt.base.extras import requires
from posnmt.base.parallel.cores import ENVIRONMENT
from posnmt.base.version import __version__
from posnmt.cli.group import COMMAND, Group, NumberRange, allow_plugins, choose_checkpoint, language_pair, loading
from posnmt.cli.help import Command, option
from posnmt.run.options import HINTS, SETS, TrainOptions

COMMANDS = {
    "demo": "posnmt.cli.main:demo",
    "train": "posnmt.cli.main:train",
    "translate": "posnmt.cli.translate:translate",
    "prepare": "posnmt.cli.main:prepare",
    "data": "posnmt.cli.data:data",
    "compare": "posnmt.cli.compare:compare",
    "analyse": "posnmt.cli.analyse:analyse",
    "score": "posnmt.cli.translate:score",
    "figure": "posnmt.cli.figure:figure",
    "metrics": "posnmt.cli.metrics:metrics",
    "show": "posnmt.cli.show:show",
    "study": "posnmt.cli.study:study",
    "condition": "posnmt.cli.condition:condition",
    "systems": "posnmt.cli.main:systems",
    "new": "posnmt.cli.new:new",
    "export": "posnmt.cli.main:export",
    "import": "posnmt.cli.importing:import_",
    "serve": "posnmt.cli.serve:serve",
}
"""Command → its function as `module:object`, which is imported when the command is first used."""


@click.group(cls=Group, lazy=COMMANDS, context_settings=COMMAND)
@click.version_option(__version__, prog_name="posnmt")
def main() -> None:
    """Train, use and compare Transformer translators with interchangeable position schemes.

    Two files are enough: train.en with a sentence on each line, and train.de with their translations.

    \b
    posnmt train --source train.en --target train.de --minutes 40 --out runs/mine
    posnmt translate runs/mine --input test.en --output test.out
    posnmt analyse --run runs/mine --source test.en --reference test.de
        --output mine=test.out
    """
    os.environ.update({**ENVIRONMENT, **os.environ})


@click.command(cls=Command, heading="Translate", context_settings=COMMAND)
@click.option("--out", type=click.Path(path_type=Path), default=Path("posnmt-demo"), help="folder")
@click.option("--updates", type=click.IntRange(min=1), default=560, help="number of updates of each training")
@click.option("--seed", type=int, default=1, help="seed of the random numbers")
def demo(out: Path, updates: int, seed: int) -> None:
    """Train and compare two systems, in under 5 minutes on 2 cores.

    Generates a corpus of short sentences in the built-in language pair, and trains a system with absolute and one with
    relative positions on it. Translates sentences up to three times as long, writes a report, says what was found,
    shows three translations and the commands for files of your own, and prints the report's path. The same command goes
    on where it was stopped.

    \b
    Example: posnmt demo --out demo
    """
    requires("train", "analyse")
    with loading():
        from posnmt.base.interrupt import Interrupted
        from posnmt.base.progress import Display
        from posnmt.cli.demo import demo as run_demo

    try:
        with Display() as display:
            page = run_demo(out, updates, seed, display)
    except Interrupted:
        print("interrupted: what is done is kept; go on with the same command", file=sys.stderr)
        sys.exit(130)
    click.echo(str(page))


@click.command(cls=Command, heading="Research", context_settings=COMMAND)
@click.argument("system", required=False)
@click.option(
    "--vocabulary",
    type=click.IntRange(min=5),
    default=16004,
    help="vocabulary size of each side, including special symbols",
)
@click.option(
    "--size",
    type=click.Choice(["tiny", "small", "base", "big"]),
    default="base",
    help="size of the model",
)
@click.option(
    "--parts", is_flag=True, help="instead, list the position schemes and architectures that systems are made of"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def systems(system: str | None, vocabulary: int, size: str, parts: bool, as_json: bool) -> None:
    """List the named systems, also those of installed packages. With SYSTEM, show its parts, source and parameters.

    `model.system: NAME` trains a system. `model.without: encoder` (or decoder, or both) takes its position information
    away on that side. For systems of your own, see --parts.

    \b
    Example: posnmt systems relative --vocabulary 16004
    """
    if system is not None:
        from posnmt.cli.systems import describe

        shown: Any = describe(system, vocabulary, size)
        text = "\n".join(
            f"{key:12} {value:,}" if isinstance(value, int) else f"{key:12} {value}" for key, value in shown.items()
        )
    elif parts:
        from posnmt.cli.systems import parts as all_parts

        shown = all_parts()
        text = "\n".join(_part(part) for part in shown)
    else:
        from posnmt.cli.listing import all_systems, as_text

        shown = all_systems()
        text = as_text(shown)
    click.echo(json.dumps(shown) if as_json else text)


def _part(part: dict[str, Any]) -> str:
    """A scheme or an architecture as text, with one option per line."""
    options = [
        f"    {name}: {json.dumps(option['default'])}  {option['about']}" for name, option in part["options"].items()
    ]
    origin = "" if part["origin"] == "posnmt" else f" ({part['origin']})"
    return "\n".join([f"{part['kind']} {part['name']}{origin}: {part['about']}", *options])


@click.command(cls=Command, heading="Translate", context_settings=COMMAND)
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="folder of stores; default: data.store, or the user's cache"
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="a setting that overrides CONFIG; default: none"
)
@click.option(
    "--check",
    is_flag=True,
    help="also run the checks that begin a training: the store, dev BLEU, the memory of the largest batch",
)
def prepare(config: Path, out: Path | None, settings: tuple[str, ...], check: bool) -> None:
    """Prepare text as a memory-mapped store. Prints a table of kept and dropped pairs, and the store's path.

    \b
    Example: posnmt prepare configs/multi30k-en-de.yaml --set data.root=/corpora/multi30k
    """
    requires("train")
    from rich.console import Console

    from posnmt.base.progress import Display
    from posnmt.cli.next import after_preparing, suggest
    from posnmt.data.prepare import changed, corpora_table, sampled, table
    from posnmt.data.suspicions import warnings
    from posnmt.training.choose import Written, for_preparing, for_training, prepared

    with Display() as display:
        written, say = Written.from_file(config, settings), display.say
        if check:
            completed, store = prepared(for_training(written, say, say), say, out=out)
        else:
            completed, store = prepared(for_preparing(written), say, say, out)
        for sentence in warnings(store, completed.config.data):
            display.say(f"warning: {sentence}")
        for sentence in (*sampled(store), *changed(store)):
            display.say(sentence)
        if check:
            from posnmt.training.checks import check_all

            check_all(completed.config, store, display)
    for counts in (table(store), corpora_table(store, completed.config.data)):
        if counts is not None:
            Console(stderr=True).print(counts)
    click.echo(str(store.folder))
    suggest(after_preparing(config, settings, out))


def train_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each of `TrainOptions`."""
    for name, sets in reversed(SETS.items()):
        kind = NumberRange(min=0, min_open=True) if float in get_args(get_args(HINTS[name])[0]) else None
        flag = f"--{name.replace('_', '-')}"
        place: dict[str, Any] = {"heading": sets.heading, "common": sets.common}
        command = option(flag, name, type=kind, metavar=sets.metavar, help=sets.help, **place)(command)
    return command


@click.command(cls=Command, heading="Translate", context_settings=COMMAND)
@click.argument("config", type=click.Path(path_type=Path), required=False)
@train_options
@option(
    "--out",
    type=click.Path(path_type=Path),
    help="run folder; default: runs/NAME for NAME.yaml, or runs/mine",
    heading="Run",
)
@option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="a setting that overrides CONFIG; default: none",
    heading="Settings",
)
@option("--resume", is_flag=True, help="continue the run in --out as if it had never stopped", heading="Run")
@allow_plugins
@option("--verbose", is_flag=True, help="print every chosen setting as well", heading="Run")
@option(
    "--schema", is_flag=True, help="only print the JSON Schema of a config, for editors", heading="Run", common=False
)
def train(
    config: Path | None,
    out: Path | None,
    settings: tuple[str, ...],
    resume: bool,
    verbose: bool,
    schema: bool,
    **options: Any,
) -> None:
    """Train a model, write a run folder, and print its path. Text is prepared first, if it is not yet.

    Two files are enough. Settings that you leave out are chosen from the corpus, the budget and the speed of this
    machine, and written into the run's config.yaml; the plan is printed.

    CONFIG is a YAML file with the sections data, subword, model, train, decode (docs/config.md describes every key;
    --schema prints them as a JSON Schema). --resume needs no CONFIG. Several GPUs or nodes: start it with torchrun.

    \b
    Example: posnmt train --source train.en --target train.de --minutes 40 --out runs/mine
    Example: posnmt train configs/multi30k-en-de.yaml --set model.system=relative
    Example: posnmt train --init runs/mine --source new.en --target new.de
             --minutes 10 --out runs/new
    """
    if schema:
        from posnmt.run.resolve import json_schema

        click.echo(json.dumps(json_schema(), indent=2))
        return
    requires("train")
    with loading():
        from posnmt.base.interrupt import Interrupted
        from posnmt.base.progress import Display
        from posnmt.cli.next import after_training, suggest
        from posnmt.training.command import TrainRequest, train_command

    folder = out or Path("runs") / ("mine" if config is None else config.stem)
    try:
        with Display(verbose=verbose) as display:
            run = train_command(TrainRequest(folder, config, cast(TrainOptions, options), settings, resume), display)
    except Interrupted as stopped:
        print(f"interrupted: {stopped}", file=sys.stderr)
        sys.exit(130)
    if os.environ.get("RANK", "0") == "0":
        click.echo(str(run.folder))
        suggest(after_training(run))


@click.command(cls=Command, heading="Share", context_settings=COMMAND)
@click.argument("run", type=click.Path(path_type=Path))
@option(
    "--format",
    "kind",
    type=click.Choice(["ctranslate2", "huggingface", "argos"]),
    required=True,
    help="the program that will read the model",
    heading="Output",
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="a new folder; argos: a new file NAME.argosmodel",
    heading="Output",
)
@choose_checkpoint
@option(
    "--languages",
    metavar="SRC-TGT",
    help="argos: source and target, such as en-de; default: as in the run",
    heading="Output",
)
@option(
    "--positions",
    type=click.IntRange(min=2),
    default=2048,
    help="ctranslate2, argos: longest text, in tokens, that tables of positions are written for",
    heading="Output",
)
@option(
    "--precision",
    type=click.Choice(["fp32", "int8"]),
    default="fp32",
    help="ctranslate2, argos: precision of the weights; fp32 weights can still be loaded as int8",
    heading="Output",
)
@allow_plugins
def export(
    run: Path, kind: str, out: Path, checkpoint: str, languages: str | None, positions: int, precision: str
) -> None:
    """Write a run's model for another program, and check it there.

    It must compute there what posnmt computes. Prints the folder's path.

    `ctranslate2` is a folder for CTranslate2 (pip install "posnmt[ctranslate2]"): fast translation on CPUs and GPUs
    without PyTorch. `posnmt translate` reads it too. `huggingface` is a folder for Transformers (pip install
    "posnmt[huggingface]"): AutoModelForSeq2SeqLM and AutoTokenizer load it with trust_remote_code=True, which runs the
    code in the folder, or after `import posnmt.deploy.huggingface`. `argos` is a package for Argos Translate; the run
    must have one SentencePiece vocabulary, and CTranslate2 must be able to express its model.

    \b
    Example: posnmt export runs/multi30k --format ctranslate2 --out multi30k-ct2
    """
    with loading():
        from posnmt.deploy.argos import export as write_argos
        from posnmt.deploy.command import export as write

    say = partial(click.echo, err=True)
    if kind == "argos":
        pair = None if languages is None else language_pair(languages, "--languages")
        write_argos(run, out, checkpoint, positions, precision, pair, say)
    elif languages is not None:
        raise UserError("only --format argos takes languages", "--languages", "leave it out")
    else:
        write(run, kind, out, checkpoint, positions, precision, say)
    click.echo(str(out))
