"""`posnmt import`: other toolkits' checkpoints as runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from posnmt.base.errors import UserError
from posnmt.cli.group import COMMAND, Group, language_pair, loading

if TYPE_CHECKING:
    from posnmt.deploy.importing.imported import Imported

OUT = click.option("--out", type=click.Path(path_type=Path), required=True, help="a new run folder")


@click.group("import", cls=Group, heading="Share", context_settings=COMMAND)
def import_() -> None:
    """Turn another toolkit's checkpoint into a run.

    It is a run for `translate`, `score`, `show`, `export` and `train --init`.

    \b
    Example: posnmt import marian-hf opus-mt-en-de --out runs/opus
    """


@import_.command("marian-hf", context_settings=COMMAND)
@click.argument("folder", type=click.Path(path_type=Path))
@OUT
@click.option(
    "--languages", metavar="SRC-TGT", help="source and target, such as en-de; default: those that FOLDER names"
)
def marian_hf(folder: Path, out: Path, languages: str | None) -> None:
    """Import a Marian model of Hugging Face, such as OPUS-MT.

    It is in the format of Transformers' MarianMTModel. Prints the run's path.

    FOLDER has config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm and vocab.json. The package
    transformers need not be installed.

    \b
    Example: posnmt import marian-hf opus-mt-en-de --out runs/opus
    """
    with loading():
        from posnmt.deploy.importing.marian import read

    _write(read(folder, None if languages is None else language_pair(languages, "--languages")), out)


@import_.command("opennmt-py", context_settings=COMMAND)
@click.argument("checkpoint", type=click.Path(path_type=Path))
@OUT
@click.option("--languages", metavar="SRC-TGT", required=True, help="source and target, such as en-de")
@click.option(
    "--subwords",
    metavar="FILE|none",
    help="the SentencePiece model of both sides; none: text is already split into tokens separated by spaces;"
    " needed, unless each side has its own",
)
@click.option(
    "--source-subwords",
    type=click.Path(path_type=Path),
    help="the SentencePiece model of the source alone; default: --subwords",
)
@click.option(
    "--target-subwords",
    type=click.Path(path_type=Path),
    help="the SentencePiece model of the target alone; default: --subwords",
)
def opennmt_py(
    checkpoint: Path,
    out: Path,
    languages: str,
    subwords: str | None,
    source_subwords: Path | None,
    target_subwords: Path | None,
) -> None:
    """Import a checkpoint of OpenNMT-py 3, and print the run's path.

    CHECKPOINT is the .pt file of a Transformer with sinusoids or with relative positions (Shaw et al. 2018). If its
    weights are in a .safetensors file, keep both files in one folder. OpenNMT-py need not be installed.

    \b
    Example: posnmt import opennmt-py model_step_1000.pt --subwords spm.model
             --languages en-de --out runs/onmt
    """
    with loading():
        from posnmt.deploy.importing.opennmt import read

    given = [each for each in (source_subwords, target_subwords) if each is not None]
    if len(given) != (0 if subwords else 2):
        what = "state how text is split: --subwords, or --source-subwords and --target-subwords"
        raise UserError(what, None, "--subwords none is for text that is already split into tokens")
    files = given or (None if subwords == "none" else [Path(str(subwords))] * 2)
    _write(read(checkpoint, language_pair(languages, "--languages"), files), out)


def _write(imported: Imported, out: Path) -> None:
    """Write the run, and print the importer's notes and the run's path."""
    from posnmt.deploy.importing.imported import write

    write(imported, out)
    for note in imported.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(str(out))
