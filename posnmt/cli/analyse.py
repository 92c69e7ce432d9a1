"""`posnmt analyse`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import click

from posnmt.base import plugins
from posnmt.base.errors import raise_all
from posnmt.base.extras import requires
from posnmt.base.parallel.cores import cores
from posnmt.cli.group import COMMAND, allow_plugins
from posnmt.cli.help import Command, option
from posnmt.metrics.registry import DEFAULT_METRICS, OWN


class MetricChoice(click.Choice[str]):
    """Metrics, with commas between them. The help lists posnmt's own; those of other packages are accepted too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the names, and return them as a tuple."""
        return tuple(self._checked(name, param, ctx) for name in value.split(","))

    def _checked(self, name: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        outside = plugins.is_class(name) or name in plugins.names("metric")
        return name if outside else super().convert(name, param, ctx)


def _joined(context: click.Context, option: click.Parameter, values: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """The metrics of all options, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(values)))


@click.command(cls=Command, heading="Compare", context_settings=COMMAND)
@option(
    "--source", type=click.Path(path_type=Path), required=True, help="source text, one sentence a line", heading="Texts"
)
@option(
    "--reference",
    "references",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="reference translation; repeat it for several references, and scores are against all of them; an empty line in"
    " one of several is no reference",
    heading="Texts",
)
@option(
    "--output",
    "outputs",
    multiple=True,
    required=True,
    metavar="NAME=FILE",
    help="a system's translation; repeat it for each system",
    heading="Texts",
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("analysis"),
    help="folder for report.html, results.json, tables, figures",
    heading="Texts",
)
@option(
    "--run",
    type=click.Path(path_type=Path),
    help="a run: its subword model gives lengths, and the report shows which lengths its training lacks "
    "and which sentences it contains; default: none",
    heading="Texts",
)
@option(
    "--unit",
    type=click.Choice(["words", "tokens", "subwords", "characters"]),
    help="unit of lengths (tokens: words of tokenised text); default: subwords with --run or"
    " --subword-model, else words, and characters of text without spaces between words",
    heading="Lengths",
)
@option(
    "--subword-model",
    type=click.Path(path_type=Path),
    help="SentencePiece model for --unit subwords; default: that of --run",
    heading="Lengths",
    common=False,
)
@option(
    "--target-subword-model",
    type=click.Path(path_type=Path),
    help="the target's, if it has its own; default: --subword-model",
    heading="Lengths",
    common=False,
)
@option(
    "--bin-width",
    type=click.IntRange(min=1),
    help="width of the length bins; default 10, or 20 characters",
    heading="Lengths",
    common=False,
)
@option(
    "--bin-edges",
    metavar="N,N,...",
    help="instead of a width: the first length of every bin after the first",
    heading="Lengths",
    common=False,
)
@option(
    "--max-trained-length",
    type=click.IntRange(min=1),
    help="length of the longest source sentence in training; the report shows longer ones as unseen; "
    "default: the longest of --run, else none is unseen",
    heading="Lengths",
    common=False,
)
@option(
    "--trained-on",
    type=click.Path(path_type=Path),
    help="instead of a length: the source text of training",
    heading="Lengths",
    common=False,
)
@option(
    "--metrics",
    "metrics",
    multiple=True,
    type=MetricChoice(OWN),
    callback=_joined,
    default=DEFAULT_METRICS,
    help="metrics, separated by commas or repeated; multi-bleu is for tokenised text; install comet, "
    "comet-qe and metricx first, with `posnmt metrics install`",
    heading="Scores",
)
@option(
    "--metric-batch",
    type=click.IntRange(min=1),
    default=8,
    help="number of sentences that a neural metric scores together",
    heading="Scores",
    common=False,
)
@option(
    "--target-language",
    metavar="CODE",
    help="target language, such as ja, zh, ko: BLEU uses its tokeniser; default: the language of the "
    "reference's script",
    heading="Scores",
    common=False,
)
@option(
    "--source-language",
    metavar="CODE",
    help="source language, such as de: --completeness finds sentences by its rules; default: the language "
    "of the text's script",
    heading="Scores",
    common=False,
)
@option(
    "--completeness",
    is_flag=True,
    help="count sentence ends, source words with a counterpart, and source sentences without one",
    heading="Sentences",
    common=False,
)
@option(
    "--realign",
    is_flag=True,
    help="first cut paragraphs into one line for each source sentence; also measure by the sentence's place in its"
    " paragraph",
    heading="Sentences",
    common=False,
)
@option(
    "--parallel",
    type=(click.Path(path_type=Path), click.Path(path_type=Path)),
    metavar="SOURCE TARGET",
    help="more parallel text, from which --completeness also learns its lexicon; default: none",
    heading="Sentences",
    common=False,
)
@option(
    "--judged",
    multiple=True,
    metavar="NAME=FILE",
    help="human judgements of output NAME, with tabs: line, sentence, omitted (1 or 0); they correct its rate of"
    " omissions; default: none",
    heading="Sentences",
    common=False,
)
@option(
    "--bleu-tokenizer",
    metavar="NAME",
    help="instead of a language: a tokeniser of sacreBLEU: 13a, none, zh, ja-mecab, ko-mecab, char, intl, …",
    heading="Scores",
    common=False,
)
@option(
    "--scores",
    multiple=True,
    metavar="METRIC:NAME=FILE",
    help="sentence scores of output NAME by another program, one number per line, such as comet:mine=comet.txt;"
    " default: none",
    heading="Scores",
    common=False,
)
@option(
    "--lower-is-better",
    multiple=True,
    metavar="METRIC",
    help="a METRIC of --scores for which lower is better, such as MetricX; default: none",
    heading="Scores",
    common=False,
)
@option(
    "--likelihood",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="folder that `posnmt score --by-position --out` wrote; the report then shows its losses by position too;"
    " default: none",
    heading="Scores",
    common=False,
)
@option(
    "--word-frequencies",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="text whose word frequencies make the buckets of rare words, such as the target side of the training text;"
    " default: the reference",
    heading="Scores",
    common=False,
)
@option(
    "--documents",
    type=click.Path(path_type=Path),
    help="file with a document id on each line; intervals and tests then draw whole documents; default: sentences",
    heading="Statistics",
    common=False,
)
@option(
    "--baseline",
    metavar="NAME",
    help="system that the others are compared with; default: the best in the verdict on length, the first in tables and"
    " differences",
    heading="Statistics",
    common=False,
)
@option(
    "--swapped",
    multiple=True,
    metavar="NAME:SHARE=FILE",
    help="output NAME's translation of the source with a SHARE of its words swapped (0.1 is 10 %); default: none",
    heading="Scores",
    common=False,
)
@option(
    "--samples",
    type=click.IntRange(min=0),
    default=10_000,
    help="number of bootstrap samples, at least 40; 0: no intervals and no tests",
    heading="Statistics",
    common=False,
)
@option(
    "--significance/--no-significance",
    default=True,
    help="test every pair of outputs",
    heading="Statistics",
    common=False,
)
@option(
    "--correction",
    type=click.Choice(["none", "holm", "bonferroni"]),
    default="holm",
    help="correction of p-values for the number of pairs, where there are three outputs or more",
    heading="Statistics",
    common=False,
)
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    help="seed of the bootstrap samples",
    heading="Statistics",
    common=False,
)
@option(
    "--processes",
    type=click.IntRange(min=1),
    default=cores,
    help="number of counting processes; default: one per core, at most OMP_NUM_THREADS",
    heading="Statistics",
    common=False,
)
@option(
    "--examples",
    default="all",
    metavar="all|N|none",
    help="sentences in the report's example browser; N: evenly spaced",
    heading="Sentences",
    common=False,
)
@allow_plugins
def analyse(
    source: Path,
    references: tuple[Path, ...],
    outputs: tuple[str, ...],
    out: Path,
    scores: tuple[str, ...],
    likelihood: Path | None,
    swapped: tuple[str, ...],
    examples: str,
    **options: Any,
) -> None:
    """Measure BLEU, chrF and TER of translations, also by length.

    The translations may be of any system. Writes a report, and prints its path.

    Every figure has a 95 % interval, and every pair of outputs is tested for significance. Several seeds of one system
    are written NAME:SEED=FILE. Text without spaces between words, such as Japanese, is recognised by its script.

    \b
    Example: posnmt analyse --source test.en --reference test.de
             --output mine=out.de --output other=other.de
    """
    requires("analyse")
    from posnmt.base.progress import Display
    from posnmt.evaluation.analyse.analyse import analyse as measure
    from posnmt.evaluation.analyse.bins import parse_edges
    from posnmt.evaluation.analyse.completeness.requested import parse_judged
    from posnmt.evaluation.analyse.inputs import parse_outputs
    from posnmt.evaluation.analyse.measure import Resampling
    from posnmt.evaluation.analyse.sentence_scores import parse_scores
    from posnmt.evaluation.analyse.settings import Settings
    from posnmt.evaluation.analyse.swap import parse_swapped
    from posnmt.evaluation.report.examples import parse_examples
    from posnmt.evaluation.report.likelihood import read_report
    from posnmt.evaluation.report.write import place_faults, write

    shown, systems = parse_examples(examples), parse_outputs(outputs)
    swapped_outputs, sentence_scores = parse_swapped(swapped, systems), parse_scores(scores)
    resampling = Resampling(**{name: options.pop(name) for name in ("samples", "seed", "significance", "correction")})
    edges, judged = options.pop("bin_edges"), parse_judged(options.pop("judged"))
    settings = Settings(
        bin_edges=None if edges is None else parse_edges(edges), judged=judged, resampling=resampling, **options
    )
    raise_all([*settings.faults(), *place_faults(out)])
    with Display() as display:
        by_position = None if likelihood is None else read_report(likelihood)
        analysis = measure(source, references, systems, settings, swapped_outputs, display.say, sentence_scores)
        display.say("drawing")
        write(analysis, out, shown, by_position)
        display.say(analysis.results["verdict"]["sentence"])
        display.say(f"to cite: {analysis.results['citation']}")
    click.echo(str(out / "report.html"))
