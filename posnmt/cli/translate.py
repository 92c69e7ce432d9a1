"""`posnmt translate` and `posnmt score`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from posnmt.base.errors import UserError
from posnmt.cli.group import (
    COMMAND,
    COMPLETE,
    SPLIT,
    NumberRange,
    allow_plugins,
    choose_checkpoint,
    language_pair,
    loading,
)
from posnmt.cli.positions import chosen_positions, positions_options

_TO = click.option(
    "--to", metavar="LANGUAGE", help="the target language, of a model for several: its mark is put before each line"
)


@click.command(context_settings=COMMAND)
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="text, one sentence a line (plain, .gz, .xz); default: standard input",
)
@click.option("--output", type=click.Path(path_type=Path), help="a new file; default: standard output")
@click.option(
    "--force", is_flag=True, help="replace an existing --output, and begin again what --resume would go on with"
)
@click.option("--resume", is_flag=True, help="go on with an --output that was begun, with the same settings")
@click.option(
    "--beam", type=click.IntRange(min=1), help="hypotheses kept; 1 is greedy search; default: the run's config"
)
@click.option(
    "--nbest",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="translations per line; at most --beam, unless sampled",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "jsonl"]), default="text", show_default=True,
    help="jsonl: a line of JSON for each line of the input, with scores",
)  # fmt: skip
@click.option(
    "--length-penalty", type=NumberRange(min=0), help="a in log-probability / length^a; default: the run's config"
)
@click.option(
    "--coverage-penalty",
    type=NumberRange(min=0),
    help="beta: lowers the scores of translations whose attention leaves source subwords out; Transformers only;"
    " default: the run's config",
)
@click.option(
    "--max-ratio",
    type=NumberRange(min=0, min_open=True),
    help="longest output = ratio x source + extra, in subwords",
)
@click.option("--max-extra", type=click.IntRange(min=0), help="see --max-ratio")
@click.option(
    "--max-source",
    type=click.IntRange(min=1),
    help="refuse lines of more subwords, whose time grows with the square of their length; default: the run's config",
)
@click.option(
    "--split",
    type=click.Choice(SPLIT),
    help="translate lines in parts: every sentence of a line alone (sentences); at ends of sentences and clauses, lines"
    " longer than training sentences (auto), or of more than 4,096 subwords and 8 times as long (huge); as many"
    " sentences at a time as at least 25 % of the training lines had (as-trained); default: the run's config",
)
@click.option(
    "--complete",
    type=click.Choice(COMPLETE),
    help="what is done where a translation leaves out a sentence of its line: translate the line again, a sentence at a"
    " time (mend), or report it (warn); mend, or warn with --split off (as-trained); default: the run's config",
)
@click.option(
    "--protect",
    metavar="auto|off|FILE",
    help="what stands in translations as in their lines: placeholders such as {name} and %s, mark-up, addresses, paths,"
    " code in back quotes, and words with characters that the vocabulary lacks (auto); also what the regular"
    " expressions in a file match, one a line; nothing (off); default: the run's config",
)
@click.option(
    "--allow-unk/--no-allow-unk",
    default=None,
    help="whether translations may contain unknown characters, written as ⁇; default: the run's config",
)
@click.option("--min-length", type=click.IntRange(min=0), help="shortest output in subwords; default: the run's config")
@click.option(
    "--join",
    type=click.IntRange(1, 1000),
    help="translate so many consecutive lines together, each in the context of the others; a blank line ends a"
    " document; for models trained with train.context; default: the run's config",
)
@click.option(
    "--documents",
    type=click.Path(path_type=Path),
    help="with --join: a file with a document id for each line of --input; lines of two documents are never together",
)
@click.option(
    "--sample", is_flag=True, help="draw translations at random from the model's probabilities instead of searching"
)
@click.option(
    "--temperature",
    type=NumberRange(min=0, min_open=True),
    help="with --sample: less than 1 draws what is probable more often; default: 1",
)
@click.option(
    "--top-k", type=click.IntRange(min=0), help="with --sample: draw among so many most probable subwords; 0: all"
)
@click.option(
    "--top-p",
    type=NumberRange(min=0, max=1, min_open=True),
    help="with --sample: draw among the fewest most probable subwords with this share of probability",
)
@click.option("--seed", type=click.IntRange(0, (1 << 32) - 1), help="with --sample: of the random numbers; default: 1")
@click.option(
    "--mbr",
    type=click.IntRange(min=0),
    help="of so many translations, from the beam or drawn, take the one most similar to the others by chrF",
)
@click.option(
    "--prefix",
    type=click.Path(path_type=Path),
    help="a file with the beginning of each translation, a line for each line of --input; an empty line leaves it free",
)
@click.option(
    "--terms",
    type=click.Path(path_type=Path),
    help="a glossary, a line each: source term <tab> target term; where a line has the first, its translation has the"
    " second",
)
@click.option(
    "--alignments",
    is_flag=True,
    help="link each word of a translation to words of its line, by attention: behind the text a tab and links such as"
    " 0-0 1-2; Transformers only",
)
@click.option("--batch", type=click.IntRange(min=1), help="padded source tokens x beam per batch; affects speed only")
@click.option(
    "--precision",
    type=click.Choice(["fp32", "bf16", "int8"]),
    help="of matrix products; bf16 is faster on hardware that supports it, and less exact; int8 likewise, with"
    " CTranslate2 alone; default: the run's config",
)
@click.option(
    "--cuda-graphs/--no-cuda-graphs",
    default=None,
    help="on a GPU, record the decoder's steps and replay them; default: the run's config",
)
@choose_checkpoint
@positions_options
@click.option(
    "--document",
    type=click.Choice(["lines", "tmx", "xliff", "html", "srt", "vtt", "markdown", "po", "json", "text", "wrapped"]),
    help="format of --input and --output; text: each line is a paragraph; wrapped: blank lines separate paragraphs;"
    " default: by the ending of --input, otherwise lines, one sentence each",
)
@click.option(
    "--languages", metavar="SRC-TGT", help="of a document: source and target, such as en-de; default: as in the run"
)
@_TO
@click.option(
    "--engine",
    type=click.Choice(["torch", "ctranslate2", "auto"]),
    help="the program that translates; auto: CTranslate2 in fp32 if it can express the run; default: torch, and"
    " ctranslate2 for an exported model",
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
    """Translate text line by line, in order. Several RUNS are an ensemble; or one folder that `posnmt export` made.

    An empty line gives an empty line. With --nbest N in text format, each translation is a line `number TAB score TAB
    text`, and an empty line has one without score and text; with --alignments, a tab and the links are behind each
    text. Lines may have any length; outputs that reach the output limit or repeat themselves are reported.
    A translation into a file that was interrupted or killed goes on with --resume.

    A document (TMX, XLIFF, HTML, Markdown, PO, JSON, subtitles, paragraphs) becomes another one with the same
    structure; what stays untranslated is counted and named.

    \b
    Example: posnmt translate runs/multi30k --input test.en --output test.de --beam 4
    """
    with loading():
        from posnmt.deploy.documents.formats import format_of, refuse_output_format
        from posnmt.deploy.folder import choose_engine
        from posnmt.translate.command import translate_file
        from posnmt.translate.options import named_as_options
        from posnmt.translate.output import refuse_output
        from posnmt.translate.spans import read_patterns

    refuse_output(output, [source, *filter(None, (prefix, terms, documents))], force, resume)
    chosen = {key: value for key, value in _with_sampling(search).items() if value is not None}
    if changes := chosen_positions(positions, interpolate):
        chosen["positions"] = changes
    if search["protect"] not in (None, "auto", "off"):
        chosen["protect"] = read_patterns(Path(search["protect"]))
    engine = choose_engine(engine, runs, chosen.get("precision"))
    kind = format_of(document, source)
    refuse_output_format(document, kind, output)
    with named_as_options(chosen):
        if kind:
            with loading():
                from posnmt.deploy.documents.command import choose, refuse_options, translate_document
            refuse_options(
                {
                    "--nbest": nbest > 1, "--format": form != "text", "--prefix": prefix, "--resume": resume,
                    "--alignments": alignments, "--join": search["join"], "--documents": documents,
                }
            )  # fmt: skip
            pair = None if languages is None else language_pair(languages, "--languages")
            model = choose(engine, runs, checkpoint, chosen, terms is not None).to(to)
            translate_document(model, kind, source, output, pair, terms)
            return
        if languages is not None:
            raise UserError("lines have no languages", "--languages", "name a --document format, or leave it out")
        options = (source, output, nbest, form, checkpoint, chosen, resume, prefix, terms, to, alignments, documents)
        if engine == "torch":
            translate_file(runs, *options)
            return
        with loading():
            from posnmt.deploy.command import translate_elsewhere

        translate_elsewhere(engine, runs, *options)


def _with_sampling(search: dict[str, Any]) -> dict[str, Any]:
    """The options of search with those of sampling as one setting.

    Raises:
        UserError: options of sampling without --sample, or --sample with a beam.
    """
    names = ("temperature", "top_k", "top_p", "seed")
    drawn = {name: value for name in names if (value := search.pop(name)) is not None}
    if not search.pop("sample"):
        if drawn:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in drawn)
            raise UserError("search draws nothing", options, "add --sample, or leave them out")
        return search
    if search["beam"] is not None:
        raise UserError("samples are drawn, without a beam", "--beam", "leave it out, or search without --sample")
    return {**search, "sampling": drawn}


@click.command(context_settings=COMMAND)
@click.argument("runs", metavar="RUN...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--source", type=click.Path(path_type=Path), required=True, help="source text")
@click.option("--target", type=click.Path(path_type=Path), required=True, help="its translations, line by line")
@click.option(
    "--by-position",
    is_flag=True,
    help="losses of the target's subwords by position and length, of one or several runs, with intervals",
)
@click.option(
    "--documents",
    type=click.Path(path_type=Path),
    help="with --by-position: a file with a document id for each line; default: each 20 lines count as a document",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="with --by-position: a new folder for the page, the figures, the table and the losses of all subwords (.npz)",
)
@click.option(
    "--baseline",
    metavar="SYSTEM",
    help="with --by-position: the system that the others are compared with; default: that of the first run",
)
@click.option(
    "--swap",
    is_flag=True,
    help="with --by-position: also score sentences after a short and after a long sentence of their document",
)
@click.option(
    "--shift",
    type=click.IntRange(1, 10_000),
    metavar="K",
    help="with --by-position: also let positions begin at K, on the source, on the target, and on both",
)
@choose_checkpoint
@positions_options
@_TO
@allow_plugins
def score(
    runs: tuple[Path, ...],
    source: Path,
    target: Path,
    by_position: bool,
    documents: Path | None,
    out: Path | None,
    baseline: str | None,
    swap: bool,
    shift: int | None,
    checkpoint: str,
    interpolate: float | None,
    positions: tuple[str, ...],
    to: str | None,
) -> None:
    """Print the natural log-probability of each target line given its source line, by the full forward pass.

    With --by-position, compare runs by the losses of the target's subwords, each given its source and a correct prefix:
    by position and by source length, with intervals over documents and seeds. It prints a table as CSV, or writes a
    report with --out, and says what is decided.

    \b
    Example: posnmt score runs/multi30k --source test.en --target test.de
    """
    changes = chosen_positions(positions, interpolate)
    if by_position:
        with loading():
            from posnmt.cli.likelihood import Request, score_by_position

        score_by_position(runs, Request(source, target, documents, out, swap, shift, baseline, checkpoint, changes, to))
        return
    with_positions = {
        "--documents": documents, "--out": out, "--baseline": baseline, "--swap": swap, "--shift": shift,
    }  # fmt: skip
    if given := [name for name, value in with_positions.items() if value]:
        raise UserError("this matters to losses by position", ", ".join(given), "add --by-position, or leave it out")
    if len(runs) > 1:
        raise UserError("several runs are compared by position", "RUN", "name one run, or add --by-position")
    with loading():
        from posnmt.translate.command import score_files

    score_files(runs[0], source, target, checkpoint, changes, to)
