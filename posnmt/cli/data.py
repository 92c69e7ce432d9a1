"""`posnmt data`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posnmt.base.errors import UserError, raise_all
from posnmt.cli.group import COMMAND, NumberRange, language_pair

if TYPE_CHECKING:
    from posnmt.corpora.spec import Corpus


@click.group(context_settings=COMMAND)
def data() -> None:
    """List and fetch public corpora, such as the training and test sets of the papers; clean a training text."""


@data.command("list", context_settings=COMMAND)
@click.argument("word", required=False)
@click.option("--json", "as_json", is_flag=True, help="print JSON, with licence, citation and URL")
def list_corpora(word: str | None, as_json: bool) -> None:
    """List the corpora of the catalogue, one line each; with WORD, those with it in name, title, pair or papers.

    `posnmt data fetch` also fetches the corpora of sacreBLEU and mtdata, by their names there: see docs/data.md.

    \b
    Example: posnmt data list R19
    """
    from posnmt.corpora.catalogue import catalogue

    entries = {
        name: entry
        for name, entry in catalogue().items()
        if (word or "").lower() in " ".join([name, entry.title, "-".join(entry.pair), *entry.papers]).lower()
    }
    if as_json:
        click.echo(json.dumps({name: entry.model_dump(mode="json") for name, entry in entries.items()}))
        return
    if not entries:
        raise UserError(f"the catalogue has no corpus with {word!r}", None, "`posnmt data list` lists all corpora")
    width = max(map(len, entries))
    for name, entry in entries.items():
        pairs = f"{entry.pairs:,} pairs" if entry.pairs else "size unknown"
        way = "" if entry.corpus is not None else ", to be applied for"
        click.echo(f"{name:{width}}  {entry.title} ({pairs}{way}; {', '.join(entry.papers)})")


@data.command(context_settings=COMMAND)
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--cache", type=click.Path(path_type=Path), help="folder; default: corpora in $POSNMT_CACHE or ~/.cache/posnmt"
)
@click.option("--pair", metavar="SRC-TGT", help="source and target, such as en-de; default: as the catalogue says")
def fetch(names: tuple[str, ...], cache: Path | None, pair: str | None) -> None:
    """Fetch corpora into the cache, and print their files: source TAB target [TAB document ids], one line each.

    NAMES are from the catalogue, or like `sacrebleu:wmt20` or `mtdata:Statmt-europarl-10-deu-eng`. An interrupted
    download is resumed; corpora in the cache are verified and not fetched again. If one fails, the others are still
    fetched.

    \b
    Example: posnmt data fetch newstest2014-de-en --pair en-de --cache corpora
    """
    from posnmt.base.progress import Display
    from posnmt.corpora.fetch import default_cache
    from posnmt.corpora.fetch import fetch as get

    faults = []
    with Display() as display:
        for name in names:
            try:
                corpus, languages = _named(name, pair)
                fetched = get(corpus, cache or default_cache(), languages, display.say, display.show)
            except UserError as fault:
                faults.append(fault)
                continue
            if fetched.licence:
                display.say(f"{name}: licence: {fetched.licence}; to cite: {fetched.citation}")
            files = (fetched.source, fetched.target, fetched.document_ids)
            click.echo("\t".join(str(path) for path in files if path is not None))
    raise_all(faults)


@data.command(context_settings=COMMAND)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pair", metavar="SRC-TGT", required=True, help="source and target, such as en-de")
@click.option("--out", metavar="NAME", required=True, help="beginning of the new files' names: NAME.en and NAME.de")
def extract(file: Path, pair: str, out: str) -> None:
    """Write the pairs of a translation memory (TMX, plain, .gz or .xz) as two files, line by line; print their names.

    Units that lack a language are counted. Markup inside segments is left out. `pt` takes texts of any region,
    `pt_BR` those of that region or without one. If a unit has texts of several regions, name a region.

    \b
    Example: posnmt data extract memory.tmx --pair en-de --out memory
    """
    from posnmt.base.errors import existing_file
    from posnmt.base.files import replacing
    from posnmt.corpora.tmx import write_tmx

    languages = language_pair(pair, "--pair")
    if languages[0] == languages[1]:
        raise UserError(f"both languages are {languages[0]}", "--pair", "name two")
    files = [Path(f"{out}.{language}") for language in languages]
    for path in files:
        if path.exists():
            raise UserError("the output exists and is not overwritten", path, "choose another --out")
    with replacing(files[0]) as source, replacing(files[1]) as target:
        say = partial(click.echo, err=True)
        lines = write_tmx(existing_file(file, "FILE"), languages, [source, target], say)
    click.echo(f"{lines:,} pairs", err=True)
    for path in files:
        click.echo(str(path))


@data.command(context_settings=COMMAND)
@click.option(
    "--source",
    "sources",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="source text, plain, .gz or .xz; once for each corpus",
)
@click.option(
    "--target",
    "targets",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="its translation, line by line; once for each corpus",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="folder for the cleaned and dropped pairs")
@click.option("--source-language", metavar="CODE", help="default: by the files' names, such as train.de")
@click.option("--target-language", metavar="CODE", help="default: by the files' names")
@click.option(
    "--keep",
    type=click.Choice(["damaged", "empty", "copies"]),
    multiple=True,
    help="keep pairs with control characters (damaged; bytes that are not UTF-8 and NUL are errors then), with an empty"
    " side, or with equal sides; once for each",
)
@click.option(
    "--min-length", type=click.IntRange(min=0), default=0, show_default=True, help="characters of a side; 0: no limit"
)
@click.option(
    "--max-length",
    type=click.IntRange(min=0),
    default=2000,
    show_default=True,
    help="characters of a side; 0: no limit",
)
@click.option(
    "--max-ratio",
    type=NumberRange(min=0),
    default=4.0,
    show_default=True,
    help="of the sides' lengths in characters, from which on a pair is dropped; 0: no limit",
)
@click.option(
    "--min-script",
    type=NumberRange(0, 1),
    default=0.2,
    show_default=True,
    help="share of a side's letters in its language's script, or that of most of its text; 0: no limit",
)
@click.option(
    "--duplicates",
    type=click.Choice(["near", "exact", "keep"]),
    default="near",
    show_default=True,
    help="drop pairs that repeat an earlier one; near: with other blanks, punctuation or case too",
)
@click.option("--one-target", is_flag=True, help="drop pairs whose source had another target before")
@click.option(
    "--opusfilter",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="also write the cleaning as a configuration of OpusFilter",
)
def clean(
    sources: tuple[Path, ...],
    targets: tuple[Path, ...],
    out: Path,
    source_language: str | None,
    target_language: str | None,
    keep: tuple[str, ...],
    opusfilter: Path | None,
    **limits: Any,
) -> None:
    """Drop pairs that a training text is better without: damaged, copied, repeated, of odd lengths, in other scripts.

    Prints how many are dropped for which reason, and the two cleaned files. The dropped pairs are in OUT too, with
    dropped.tsv: file, line, reason and detail of each. Several corpora are cleaned as one text.

    \b
    Example: posnmt data clean --source crawl.en.gz --target crawl.de.gz --out cleaned
    """
    from rich.console import Console

    from posnmt.base.files import write_text
    from posnmt.base.progress import Display
    from posnmt.corpora.cleaning.clean import Settings, table
    from posnmt.corpora.cleaning.clean import clean as write
    from posnmt.corpora.cleaning.opusfilter import configuration

    if len(sources) != len(targets):
        counted = f"got {len(sources)} and {len(targets)}"
        raise UserError(f"each corpus has a source and a target; {counted}", "--source, --target", "name both of each")
    if opusfilter is not None and opusfilter.exists():
        raise UserError("the output exists and is not overwritten", opusfilter, "choose another --opusfilter")
    if opusfilter is not None and not (opusfilter.parent.is_dir() or opusfilter.parent.resolve() == out.resolve()):
        raise UserError(
            "the folder of this output does not exist", opusfilter, "make it, or choose another --opusfilter"
        )
    chosen: dict[str, Any] = {name: name not in keep for name in ("damaged", "empty", "copies")}
    settings = Settings(**chosen, **limits, languages=(source_language, target_language))
    pairs = list(zip(sources, targets, strict=True))
    with Display() as display:
        cleaned = write(out, pairs, settings, display)
    if opusfilter is not None:
        write_text(opusfilter, configuration(pairs, cleaned.settings, cleaned.rules))
    Console(stderr=True).print(table(cleaned.manifest))
    for path in cleaned.files:
        click.echo(str(path))


def _named(name: str, pair: str | None) -> tuple[Corpus, tuple[str, str]]:
    """Parse the name of a corpus and the language pair."""
    from posnmt.corpora.catalogue import entry
    from posnmt.corpora.fetch import spec

    kind, _, rest = name.rpartition(":")
    if pair is not None:
        languages = language_pair(pair, "--pair")
    elif kind:
        raise UserError(f"{name} needs a language pair", "--pair", "for example --pair en-de")
    else:
        languages = entry(name).pair
    return spec({kind or "name": rest}), languages
