"""`posnmt translate` and `posnmt score`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from posnmt.base.errors import UserError
from posnmt.cli.group import COMMAND, allow_plugins, choose_checkpoint, language_pair, loading
from posnmt.cli.help import Command, option
from posnmt.cli.positions import chosen_positions, positions_options
from posnmt.cli.search import SearchCommand, chosen_search
from posnmt.deploy.documents.formats import FORMATS, format_of, refuse_output_format
from posnmt.translate.engines import ENGINES, choose

_TO = option(
    "--to",
    metavar="LANGUAGE",
    help="target language of a multilingual model: posnmt puts its language tag before each line; default: none",
    heading="Model",
    common=False,
)


@click.command(cls=SearchCommand, mark="cli", before="nbest", heading="Translate", context_settings=COMMAND)
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="text, one sentence a line (plain, .gz, .xz); default: standard input",
    heading="Files",
)
@option("--output", type=click.Path(path_type=Path), help="a new file; default: standard output", heading="Files")
@option(
    "--force",
    is_flag=True,
    help="replace an existing --output, and discard a partial one that --resume would continue",
    heading="Files",
    common=False,
)
@option(
    "--resume",
    is_flag=True,
    help="continue a partial --output, after an interruption or a kill; use the same settings as before",
    heading="Files",
)
@option(
    "--nbest",
    type=click.IntRange(min=1),
    default=1,
    help="translations per line, each on a line `number TAB score TAB text` (an empty line has no score); at most"
    " --beam, unless --sample",
    heading="Search",
)
@option(
    "--format", "form", type=click.Choice(["text", "jsonl"]), default="text",
    help="jsonl: one line of JSON for each line of --input, with scores",
 heading="Files")  # fmt: skip
@option(
    "--documents",
    type=click.Path(path_type=Path),
    help="with --join: a file with a document id for each line of --input; lines of different documents "
    "are not joined; default: only empty lines end a document",
    heading="Files",
    common=False,
)
@option(
    "--prefix",
    type=click.Path(path_type=Path),
    help="a file with the beginning of each translation, one per line of --input; an empty line gives no "
    "beginning; default: none",
    heading="Text",
    common=False,
)
@option(
    "--terms",
    type=click.Path(path_type=Path),
    help="a glossary with lines `source term TAB target term`: if a line contains the source term, its "
    "translation contains the target term; default: none",
    heading="Text",
)
@option(
    "--alignments",
    is_flag=True,
    help="align the words of each translation with those of its line, by attention: a tab and links such as 0-0 1-2"
    " follow the text; Transformers only",
    heading="Search",
    common=False,
)
@choose_checkpoint
@positions_options
@option(
    "--document",
    type=click.Choice(["lines", *FORMATS]),
    help="format of --input and --output; lines: one sentence per line; text: one paragraph per line; "
    "wrapped: empty lines separate paragraphs; default: by the ending of --input, else lines",
    heading="Files",
    common=False,
)
@option(
    "--languages",
    metavar="SRC-TGT",
    help="languages of a document, such as en-de; default: those of the run",
    heading="Files",
    common=False,
)
@_TO
@option(
    "--engine",
    type=click.Choice(list(ENGINES)),
    help="the program that translates; auto: CTranslate2 in fp32 if it can express the run; default: torch, and"
    " ctranslate2 for an exported model",
    heading="Model",
)
@allow_plugins
def translate(
    runs: tuple[Path, ...],
    source: Path | None,
    output: Path | None,
    force: bool,
    resume: bool,
    nbest: int,
    form: str,
    checkpoint: str,
    interpolate: float | None,
    positions: tuple[str, ...],
    engine: str | None,
    prefix: Path | None,
    terms: Path | None,
    alignments: bool,
    documents: Path | None,
    document: str | None,
    languages: str | None,
    to: str | None,
    **search: Any,
) -> None:
    """Translate text line by line, in order. Several RUNS are an ensemble. A folder of `posnmt export` works as well.

    An empty line gives an empty line. Lines may have any length. Outputs that reach the output limit or repeat
    themselves are reported.

    The translation of a document (TMX, XLIFF, HTML, Markdown, PO, JSON, subtitles, paragraphs) has the structure of the
    original; parts that stay untranslated are counted and named.

    \b
    Example: posnmt translate runs/multi30k --input test.en --output test.de --beam 4
    """
    with loading():
        from posnmt.deploy.folder import choose_engine
        from posnmt.translate.command import translate_lines
        from posnmt.translate.options import named_as_options
        from posnmt.translate.output import refuse_output
        from posnmt.translate.source import Files

    refuse_output(output, [source, *filter(None, (prefix, terms, documents))], force, resume)
    chosen = chosen_search(search)
    if changes := chosen_positions(positions, interpolate):
        chosen["positions"] = changes
    engine = choose_engine(engine, runs, chosen.get("precision"))
    kind = format_of(document, source)
    refuse_output_format(document, kind, output)
    asked = {"prefix": prefix, "terms": terms, "alignments": alignments}
    of_lines = {
        **asked, "nbest": nbest > 1, "format": form != "text", "resume": resume, "join": "join" in chosen,
        "documents": documents,
    }  # fmt: skip
    with named_as_options(chosen):
        if kind:
            with loading():
                from posnmt.deploy.documents.command import refuse_options, translate_document

            refuse_options(_names(of_lines))
            pair = None if languages is None else language_pair(languages, "--languages")
        elif languages is not None:
            raise UserError("only documents have languages", "--languages", "name a --document format, or leave it out")
        of_engine = (
            {**chosen, "join": 1} if kind else chosen
        )  # texts that are neighbours in a document, such as a title and a menu, are not joined
        with loading():
            model = choose(engine, runs, checkpoint, of_engine, _names(asked)).to(to)
        if kind:
            translate_document(model, kind, source, output, pair, terms)
        else:
            files = Files(source, output, prefix, terms, documents)
            translate_lines(model, files, form, nbest, alignments, resume)


def _names(given: dict[str, Any]) -> list[str]:
    return [name for name, value in given.items() if value]


@click.command(cls=Command, heading="Compare", context_settings=COMMAND)
@click.argument("runs", metavar="RUN...", type=click.Path(path_type=Path), nargs=-1, required=True)
@option("--source", type=click.Path(path_type=Path), required=True, help="source text", heading="Files")
@option(
    "--target", type=click.Path(path_type=Path), required=True, help="its translations, line by line", heading="Files"
)
@option(
    "--by-position",
    is_flag=True,
    help="losses of the target's subwords by position and length, of one or several runs, with intervals",
    heading="By position",
)
@option(
    "--documents",
    type=click.Path(path_type=Path),
    help="with --by-position: a file with a document id for each line; default: every 20 lines are a document",
    heading="By position",
    common=False,
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    help="with --by-position: a new folder for the page, the figures, the table and the losses of all subwords (.npz);"
    " default: print a table",
    heading="By position",
)
@option(
    "--baseline",
    metavar="SYSTEM",
    help="with --by-position: the system that others are compared with; default: the system of the first run",
    heading="By position",
    common=False,
)
@option(
    "--swap",
    is_flag=True,
    help="with --by-position: also score each sentence after a short and after a long sentence of its document",
    heading="By position",
    common=False,
)
@option(
    "--shift",
    type=click.IntRange(1, 10_000),
    metavar="K",
    help="with --by-position: also score with positions that begin at K, on the source, the target, and both;"
    " default: do not",
    heading="By position",
    common=False,
)
@choose_checkpoint
@positions_options
@_TO
@allow_plugins
def score(
    runs: tuple[Path, ...], by_position: bool, interpolate: float | None, positions: tuple[str, ...], **options: Any
) -> None:
    """Print the log-probability of each target line.

    It is the natural logarithm, given the source line, and is computed in one forward pass.

    With --by-position, compare runs by their losses on the target's subwords, each given the source and the correct
    prefix. Losses are shown by position and by source length, with intervals over documents and seeds. The command
    prints a table as CSV, or writes a report with --out, and prints the conclusions.

    \b
    Example: posnmt score runs/multi30k --source test.en --target test.de
    """
    changes = chosen_positions(positions, interpolate)
    if by_position:
        with loading():
            from posnmt.cli.likelihood import Request, score_by_position

        score_by_position(runs, Request(**options, positions=changes))
        return
    if given := [f"--{name}" for name in ("documents", "out", "baseline", "swap", "shift") if options[name]]:
        raise UserError("this needs --by-position", ", ".join(given), "add --by-position, or leave it out")
    if len(runs) > 1:
        raise UserError("several runs need --by-position", "RUN", "name one run, or add --by-position")
    with loading():
        from posnmt.translate.command import score_files

    score_files(runs[0], options["source"], options["target"], options["checkpoint"], changes, options["to"])
