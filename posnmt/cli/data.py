"""`posnmt data`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posnmt.base.errors import UserError, raise_all
from posnmt.cli.group import COMMAND, Group, NumberRange, language_pair
from posnmt.cli.help import option

if TYPE_CHECKING:
    from posnmt.corpora.spec import Corpus


@click.group(cls=Group, heading="Translate", context_settings=COMMAND)
def data() -> None:
    """List, fetch and clean parallel corpora.

    Among them are the training and test sets of the papers.
    """


@data.command("list", context_settings=COMMAND)
@click.argument("word", required=False)
@click.option("--json", "as_json", is_flag=True, help="print JSON, with licence, citation and URL")
def list_corpora(word: str | None, as_json: bool) -> None:
    """List the corpora of the catalogue, one per line.

    WORD limits the list to entries that contain it. WORD is looked up in name, title, language pair and papers. `posnmt
    data fetch` also fetches the corpora of sacreBLEU and mtdata by the names that they have there: see docs/corpora.md.

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
        access = "" if entry.corpus is not None else ", on application"
        papers = "; " + ", ".join(entry.papers) if entry.papers else ""
        click.echo(f"{name:{width}}  {entry.title} ({pairs}{access}{papers})")


@data.command(context_settings=COMMAND)
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="folder; default: corpora in $POSNMT_CACHE, or in posnmt of the user's cache ($XDG_CACHE_HOME, else ~/.cache)",
)
@click.option("--pair", metavar="SRC-TGT", help="source and target, such as en-de; default: the catalogue's pair")
@click.option(
    "--from",
    "origin",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="the unpacked distribution of a corpus that needs a licence, such as ASPEC; it is read once; default: none",
)
@click.option(
    "--out",
    metavar="NAME",
    help="copy one corpus to the new files NAME.en and NAME.de; default: it is in the cache alone",
)
def fetch(names: tuple[str, ...], cache: Path | None, pair: str | None, origin: Path | None, out: str | None) -> None:
    """Fetch corpora into the cache, and print their files.

    Prints a line for each corpus: source TAB target [TAB document ids]. NAMES are from the catalogue, or like
    `sacrebleu:wmt20` or `mtdata:Statmt-europarl-10-deu-eng`. An interrupted download is resumed. Corpora in the cache
    are verified and not fetched again. If one fails, the others are still fetched.

    \b
    posnmt data fetch newstest2014-de-en --pair en-de --cache corpora
    posnmt data fetch multi30k-train-en-de --out multi30k/train
    """
    from posnmt.base.output import existing
    from posnmt.base.progress import Display
    from posnmt.corpora.fetch import copy, default_cache
    from posnmt.corpora.fetch import fetch as get

    if out is not None and len(names) > 1:
        raise UserError(
            f"it names the files of one corpus, and there are {len(names)}", "--out", "fetch each by itself"
        )
    faults = []
    with Display() as display:
        for name in names:
            try:
                corpus, languages = _corpus_and_pair(name, pair)
                if out is not None:
                    sides = _sides(out, languages)
                    raise_all(existing(sides[0].parent, [side.name for side in sides]))
                fetched = get(corpus, cache or default_cache(), languages, display.say, display.show, origin=origin)
            except UserError as fault:
                faults.append(fault)
                continue
            if fetched.licence:
                display.say(f"{name}: licence: {fetched.licence}; to cite: {fetched.citation}")
            for path in fetched.references:
                display.say(f"{name}: a further reference: {path}")
            if out is not None:
                fetched = copy(fetched, out, languages)
            files = (fetched.source, fetched.target, fetched.document_ids)
            click.echo("\t".join(str(path) for path in files if path is not None))
    raise_all(faults)


@data.command(context_settings=COMMAND)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pair", metavar="SRC-TGT", required=True, help="source and target, such as en-de")
@click.option("--out", metavar="NAME", required=True, help="the new files are NAME.en and NAME.de")
def extract(file: Path, pair: str, out: str) -> None:
    """Write the pairs of a translation memory to two files.

    FILE is TMX, plain, .gz or .xz. Prints the names of the two parallel files. Units without one of the languages are
    counted and left out, and so is markup inside segments. `pt` takes texts of any region; `pt_BR` takes texts of that
    region and texts without a region. If a unit has texts of several regions, name a region.

    \b
    Example: posnmt data extract memory.tmx --pair en-de --out memory
    """
    from posnmt.base.errors import existing_file
    from posnmt.base.output import changing
    from posnmt.corpora.tmx import write_tmx

    languages = language_pair(pair, "--pair")
    if languages[0] == languages[1]:
        raise UserError(f"both languages are {languages[0]}", "--pair", "name two different languages")
    files = _sides(out, languages)
    with changing(files[0].parent, new=True) as changes:
        drafts = [changes.path(path.name) for path in files]
        lines = write_tmx(existing_file(file, "FILE"), languages, drafts, partial(click.echo, err=True))
    click.echo(f"{lines:,} pairs", err=True)
    for path in files:
        click.echo(str(path))


@data.command(context_settings=COMMAND)
@option(
    "--source",
    "sources",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="source text, plain, .gz or .xz; repeat it for each corpus",
    heading="Texts",
)
@option(
    "--target",
    "targets",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="its translation, line by line; repeat it for each corpus",
    heading="Texts",
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="folder for the cleaned and dropped pairs",
    heading="Texts",
)
@option(
    "--source-language",
    metavar="CODE",
    help="language of the source; default: by the files' names, such as train.de",
    heading="Texts",
    common=False,
)
@option(
    "--target-language",
    metavar="CODE",
    help="language of the target; default: by the files' names",
    heading="Texts",
    common=False,
)
@option(
    "--keep",
    type=click.Choice(["damaged", "empty", "copies"]),
    multiple=True,
    help="keep pairs with control characters (damaged), with an empty side (empty), or with equal sides (copies);"
    " repeat it for several; with damaged, NUL and bytes that are not UTF-8 are errors;"
    " default: keep none",
    heading="Drop",
)
@option(
    "--min-length",
    type=click.IntRange(min=0),
    default=0,
    help="fewest characters of a side; 0: no limit",
    heading="Drop",
    common=False,
)
@option(
    "--max-length",
    type=click.IntRange(min=0),
    default=2000,
    help="most characters of a side; 0: no limit",
    heading="Drop",
)
@option(
    "--max-ratio",
    type=NumberRange(min=0),
    default=4.0,
    help="ratio of the sides' lengths in characters at which a pair is dropped; 0: no limit",
    heading="Drop",
)
@option(
    "--min-script",
    type=NumberRange(0, 1),
    default=0.2,
    help="smallest share of a side's letters in the script of its language, or else in the script of most of its text;"
    " 0: no limit",
    heading="Drop",
)
@option(
    "--duplicates",
    type=click.Choice(["near", "exact", "keep"]),
    default="near",
    help="which repeated pairs to drop: exact: equal ones; near: also those that differ in spaces, punctuation or case;"
    " keep: none",
    heading="Drop",
)
@option(
    "--one-target",
    is_flag=True,
    help="drop pairs whose source stands in an earlier pair with another target",
    heading="Drop",
)
@option(
    "--opusfilter",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="also write a configuration of OpusFilter that does the same cleaning; default: do not",
    heading="Other programs",
    common=False,
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
    """Drop training pairs that are damaged, repeated or unlikely.

    Copied pairs, pairs of unlikely lengths, and pairs in another script are dropped too. Prints how many pairs were
    dropped for each reason, and the paths of the two cleaned files. OUT also has the dropped pairs, and dropped.tsv
    with file, line, reason and detail of each. Several corpora are cleaned as one text.

    \b
    Example: posnmt data clean --source crawl.en.gz --target crawl.de.gz --out cleaned
    """
    from rich.console import Console

    from posnmt.base.output import write_text
    from posnmt.base.progress import Display
    from posnmt.corpora.cleaning.clean import Settings, table
    from posnmt.corpora.cleaning.clean import clean as write
    from posnmt.corpora.cleaning.opusfilter import configuration
    from posnmt.corpora.cleaning.rules import Rule

    if len(sources) != len(targets):
        what = f"{len(sources)} sources and {len(targets)} targets"
        raise UserError(what, "--source, --target", "name one of each for every corpus")
    if opusfilter is not None and not (opusfilter.parent.is_dir() or opusfilter.parent.resolve() == out.resolve()):
        raise UserError(
            "the folder of this output does not exist", opusfilter, "create it, or choose another --opusfilter"
        )
    chosen: dict[str, Any] = {name: name not in keep for name in ("damaged", "empty", "copies")}
    settings = Settings(**chosen, **limits, languages=(source_language, target_language))
    pairs = list(zip(sources, targets, strict=True))

    def before(settings: Settings, rules: list[Rule]) -> None:
        """Write the other output before the folder, which would refuse that the command is repeated after a kill."""
        if opusfilter is None:
            return
        content = configuration(pairs, settings, rules)
        if opusfilter.exists() and opusfilter.read_bytes() != content.encode():
            raise UserError("the output exists and is not overwritten", opusfilter, "choose another --opusfilter")
        write_text(opusfilter, content)

    with Display() as display:
        cleaned = write(out, pairs, settings, display, before)
    Console(stderr=True).print(table(cleaned.manifest))
    for path in cleaned.files:
        click.echo(str(path))


def _sides(out: str, languages: tuple[str, str]) -> list[Path]:
    """The files of two languages that `--out` names.

    Raises:
        UserError: it is a folder.
    """
    if out.endswith("/") or Path(out).is_dir():
        todo = f"add the beginning of the files' names: {out.rstrip('/')}/train"
        raise UserError("it is a folder", f"--out {out}", todo)
    return [Path(f"{out}.{language}") for language in languages]


def _corpus_and_pair(name: str, pair: str | None) -> tuple[Corpus, tuple[str, str]]:
    """The corpus of a name such as `sacrebleu:wmt20`, and its languages: `pair`, or the catalogue's."""
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
