"""A posnmt run as a CTranslate2 model, and whether the two translate alike.

    python benchmarks/peers/to_ctranslate2.py RUN OUTPUT --environment ENVIRONMENT [--check FILE] [--sentences 500]

RUN is a run folder of a system that CTranslate2 can express (docs/export.md); OUTPUT is a new folder. ENVIRONMENT is a
folder with CTranslate2, made when it is missing. With --check the first sentences of FILE, one a line, are translated
by both in float32, greedily and with beam 4, and the equal outputs are counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from decode_once import read_lines, translate, use_environment

from posnmt.base.errors import UserError, existing_file
from posnmt.deploy.ctranslate2 import write
from posnmt.run.run import Run
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator

POSITIONS = 2048
"""Entries of a table of sinusoids; CTranslate2 stops with an error at a longer sentence."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("output", type=Path, help="new folder for the CTranslate2 model")
    parser.add_argument("--environment", type=Path, required=True, help="folder with CTranslate2; made when missing")
    parser.add_argument("--checkpoint", default="model", choices=["model", "best", "average", "last"])
    parser.add_argument("--check", type=Path, help="source text that both translate")
    parser.add_argument("--sentences", type=int, default=500, help="of the text that is checked (%(default)s)")
    arguments = parser.parse_args()
    try:
        use_environment(arguments.environment)
        run = Run.open(arguments.run)
        convert(run, arguments.output, arguments.checkpoint)
        print(f"{arguments.output}: CTranslate2 model of {arguments.run}, float32")
        if arguments.check is not None:
            text = existing_file(arguments.check, "--check")
            compare(run, arguments.output, read_lines(text)[: arguments.sentences], arguments.checkpoint)
    except UserError as error:
        sys.exit(f"error: {error.line()}")


def convert(run: Run, folder: Path, checkpoint: str = "model") -> None:
    """Write a run's model as a CTranslate2 model; its weights are float32, and a `compute_type` may quantise them.

    Args:
        checkpoint: see `Run.weights`.

    Raises:
        UserError: the folder exists, or CTranslate2 cannot express the model.
    """
    if folder.exists():
        raise UserError("the output exists already, and nothing is written over", folder, "name a new folder")
    write(run.model(checkpoint), run.text(), folder, POSITIONS)


def compare(run: Run, folder: Path, lines: Sequence[str], checkpoint: str) -> None:
    """Print how many of the lines posnmt and CTranslate2 give the same output, and how far these scores are apart.

    Outputs that reach posnmt's limit of the length, which is each line's own, may differ and are counted apart.
    """
    import ctranslate2

    text = run.text()
    pieces = text.target.subwords.pieces
    ours = Translator.load([run], checkpoint, device=torch.device("cpu"))
    theirs = ctranslate2.Translator(str(folder), compute_type="float32")
    for beam in (1, 4):
        decode = run.config.decode.model_copy(update={"beam": beam})
        equal, differing, limited, distances = 0, 0, 0, [0.0]
        found = zip(
            ours.translate(numbered(lines), Search(decode, beam)),
            translate(theirs, text, lines, decode, 1024, True),
            strict=True,
        )
        for one, other in found:
            if other is None:
                continue
            best = one.hypotheses[0]
            if [pieces[token] for token in best.tokens] == other.hypotheses[0]:
                equal += 1
                distances.append(abs(best.score - other.scores[0]))
            elif all(hypothesis.ended for hypothesis in one.hypotheses):
                differing += 1
            else:
                limited += 1
        print(
            f"beam {beam}: {equal} of {equal + differing + limited} outputs are equal, scores to {max(distances):.1e};"
            f" {differing} differ, and {limited} that reached posnmt's limit of the output's length"
        )


if __name__ == "__main__":
    main()
