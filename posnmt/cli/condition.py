"""`posnmt condition`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from posnmt.cli.group import COMMAND, Group


@click.group(cls=Group, heading="Research", context_settings=COMMAND)
def condition() -> None:
    """Make training and test conditions, or an artificial pair."""


@condition.command(context_settings=COMMAND)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="a new folder")
@click.option("--train", type=click.IntRange(min=1), default=20_000, help="training pairs")
@click.option("--dev", type=click.IntRange(min=1), default=500, help="dev pairs")
@click.option("--test", type=click.IntRange(min=1), default=1_000, help="pairs in test, and again in test-long")
@click.option("--min-length", type=int, default=3, help="shortest source sentence, in words")
@click.option("--max-length", type=int, default=14, help="longest one in training and dev")
@click.option("--test-max-length", type=int, default=42, help="longest one in test")
@click.option(
    "--reordering",
    default="mixed",
    help="short, long, mixed, or a number from 0 (short) to 1 (long)",
)
@click.option("--lexicon", type=int, default=None, help="stems in the dictionary, 40 to 20,000; default: 120")
@click.option("--seed", type=int, default=1, help="seed of the random numbers")
def artificial(out: Path, **options: Any) -> None:
    """Make an artificial language pair with exact references.

    Its source is subject-verb-object, and its target verb-final with inflection. Sentences can have any length. Writes
    train, dev, test and test-long (.source, .target, .align) and manifest.json. The same seed gives the same bytes.

    \b
    Example: posnmt condition artificial --out corpus --train 20000
             --max-length 14 --test-max-length 42
    """
    from posnmt.corpora.artificial.pairs import command

    command(out, **{name: value for name, value in options.items() if value is not None})
    click.echo(str(out))


@condition.command(context_settings=COMMAND)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="folder for the reordered texts")
@click.option(
    "--apply", multiple=True, required=True, metavar="NAME=FILE", help="text to reorder; repeat it for each text"
)
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="source text to learn the order from; needed, unless --model or --command is given",
)
@click.option("--target", type=click.Path(path_type=Path), help="its translations, line by line; needed with --source")
@click.option(
    "--alignment",
    type=click.Path(path_type=Path),
    help="their word alignments, lines like `0-0 1-2`; default: made by eflomal",
)
@click.option("--model", type=click.Path(path_type=Path), help="instead of learning: model.json of an earlier run")
@click.option(
    "--command", "program", metavar="CMD", help="instead: a shell command that reads lines and writes them reordered"
)
@click.option("--seed", type=int, default=1, help="seed of the random numbers")
@click.option("--passes", type=click.IntRange(min=1), default=3, help="passes over the pairs while learning")
def reorder(out: Path, **options: Any) -> None:
    """Put source words into the order of the target language.

    This is pre-reordering. Learns the order from a parallel text with word alignments, and applies it to other texts:
    training, dev and test sources. Words are separated by spaces: segment Japanese or Chinese first. See
    docs/conditions.md.

    \b
    Example: posnmt condition reorder --source train.ja --target train.en
             --apply train.ja=train.ja --apply test.ja=test.ja --out reordered
    """
    from posnmt.base.progress import Display
    from posnmt.corpora.conditions.reorder.command import Reordering, command

    with Display() as display:
        command(out, Reordering(**options), display)
    click.echo(str(out))


def _options(*options: Any) -> Any:
    """Combine options that several commands share into one decorator."""
    return lambda command: functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


_CONDITION_OUT = click.option("--out", type=click.Path(path_type=Path), required=True, help="folder to write to")
_PARALLEL_TEXT = _options(
    click.option(
        "--source", type=click.Path(path_type=Path), help="source text, one sentence a line; needed without --tsv"
    ),
    click.option(
        "--target", type=click.Path(path_type=Path), help="its translation, line by line; needed with --source"
    ),
    click.option(
        "--tsv", type=click.Path(path_type=Path), help="instead of two files: one, source TAB target [TAB document id]"
    ),
)
_LENGTH_UNIT = _options(
    click.option(
        "--unit",
        type=click.Choice(["words", "tokens", "subwords", "characters"]),
        help="unit of lengths; default: subwords with --subword-model, else words",
    ),
    click.option(
        "--subword-model", type=click.Path(path_type=Path), help="SentencePiece model; needed with --unit subwords"
    ),
    click.option(
        "--target-subword-model",
        type=click.Path(path_type=Path),
        help="the target's, if it has its own; default: --subword-model",
    ),
)


@condition.command("length-split", context_settings=COMMAND)
@_CONDITION_OUT
@_PARALLEL_TEXT
@click.option("--parts", type=click.IntRange(min=2), default=3, help="number of parts")
@_LENGTH_UNIT
def length_split(out: Path, parts: int, unit: str | None, **options: Path | None) -> None:
    """Split training text into parts of increasing length.

    The parts (short, middle, long) have almost equally many tokens; the length is the source's. Prints a table of the
    parts. See docs/conditions.md.

    \b
    Example: posnmt condition length-split --source train.en --target train.de --out split
    """
    from posnmt.corpora.conditions.length import length_split as split

    _by_length(split, out, parts, unit, **options)


@condition.command(context_settings=COMMAND)
@_CONDITION_OUT
@_PARALLEL_TEXT
@click.option(
    "--max-length", type=click.IntRange(min=1), required=True, help="greatest length that is kept, on either side"
)
@_LENGTH_UNIT
def cap(out: Path, max_length: int, unit: str | None, **options: Path | None) -> None:
    """Remove pairs that are too long from training text.

    Either side counts. Prints a table of kept and dropped pairs.

    \b
    Example: posnmt condition cap --source train.en --target train.de
             --max-length 75 --out cap75
    """
    from posnmt.corpora.conditions.length import cap as write_capped

    _by_length(write_capped, out, max_length, unit, **options)


def _by_length(
    write: Any,
    out: Path,
    number: int,
    unit: str | None,
    subword_model: Path | None,
    target_subword_model: Path | None,
    **files: Path | None,
) -> None:
    """Run a condition that depends on lengths, and print its table."""
    from rich.console import Console

    from posnmt.base.progress import Display
    from posnmt.corpora.conditions.length import choose_unit, length_table
    from posnmt.corpora.conditions.text import parallel_text

    counted = choose_unit(unit, subword_model, target_subword_model)
    with Display() as display:
        manifest = write(out, parallel_text(**files, display=display), counted, number)
    Console(stderr=True).print(length_table(manifest))
    click.echo(str(out))


@condition.command(context_settings=COMMAND)
@_CONDITION_OUT
@_PARALLEL_TEXT
@click.option(
    "--documents",
    type=click.Path(path_type=Path),
    help="file with a document id in the first field of each line;"
    " default: the third field of --tsv, or all lines are one document",
)
@click.option("--sentences", type=click.IntRange(min=2), default=2, help="pairs to join")
@click.option(
    "--source-separator", help="text between source sentences; default: a space, but nothing in Japanese and Chinese"
)
@click.option(
    "--target-separator", help="text between target sentences; default: a space, but nothing in Japanese and Chinese"
)
@click.option(
    "--rest",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    help="what to do with too few sentences at the end of a document: keep them as a shorter group, or drop them",
)
def join(
    out: Path, sentences: int, source_separator: str | None, target_separator: str | None, rest: str, **files: Any
) -> None:
    """Join consecutive sentence pairs into longer lines.

    A line never goes across the end of a document.

    \b
    Example: posnmt condition join --source test.en --target test.de
             --documents test.ids --sentences 2 --out joined
    """
    from posnmt.base.progress import Display
    from posnmt.corpora.conditions.join import join as write_joined
    from posnmt.corpora.conditions.text import parallel_text

    with Display() as display:
        text = parallel_text(**files, display=display)
        write_joined(out, text, sentences, source_separator, target_separator, drop_rest=rest == "drop")
    click.echo(str(out))


@condition.command(context_settings=COMMAND)
@_CONDITION_OUT
@click.option(
    "--source", type=click.Path(path_type=Path), required=True, help="text whose words are separated by spaces"
)
@click.option(
    "--share",
    "shares",
    type=float,
    multiple=True,
    required=True,
    help="share of each sentence's words, 0.1 for 10 %; repeat it for several",
)
@click.option("--seed", type=int, default=1, help="seed of the random numbers")
def swap(out: Path, source: Path, shares: tuple[float, ...], seed: int) -> None:
    """Swap a share of each sentence's words at random.

    Reads a source text, and writes a file for each share.

    \b
    Example: posnmt condition swap --source test.en --share 0.1 --share 0.2
             --share 0.3 --out swapped
    """
    from posnmt.base.progress import Display
    from posnmt.corpora.conditions.swap import swap as write_swapped
    from posnmt.corpora.conditions.text import InputText
    from posnmt.data.corpus import TextFile

    with Display() as display:
        write_swapped(out, InputText({"source": TextFile("--source", source)}, display), shares, seed)
    click.echo(str(out))
