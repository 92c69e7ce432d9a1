"""One translation in a process of its own, by CTranslate2 or by posnmt's command line: what decode_speed.py measures.

    python benchmarks/peers/decode_once.py JOB

JOB is JSON: `peer` (what `with_ctranslate2` takes) or `command` (the words after `posnmt`), and `result`, the file that
gets the seconds of search. They go from lines of text to lines of text on both sides: reading, SentencePiece, search,
writing. Starting Python and loading the model are not in them. Nothing is translated before to warm up.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.data.text import TextPipeline


def main() -> None:
    job = json.loads(sys.argv[1])
    seconds = with_posnmt(job["command"]) if "command" in job else with_ctranslate2(**job["peer"])
    Path(job["result"]).write_text(json.dumps(seconds), encoding="utf-8")


def with_posnmt(command: list[str]) -> float:
    """Run `posnmt translate …` here and give the seconds that its translation says it took."""
    from posnmt.cli import main as cli
    from posnmt.translate import command as translation

    translate_lines, seconds = translation.translate_lines, []

    def remembering(*arguments: Any, **options: Any) -> Any:
        work = translate_lines(*arguments, **options)
        seconds.append(work.seconds)
        return work

    translation.translate_lines = remembering
    try:
        cli.main(command)
    except SystemExit as stopped:
        if stopped.code:
            raise
    return seconds[0]


def with_ctranslate2(
    environment: str,
    model: str,
    text: str,
    source: str,
    output: str,
    decode: dict[str, Any],
    batch: int,
    instructions: str | None,
    **device: Any,
) -> float:
    """Translate the file `source` into the file `output` with CTranslate2; the seconds that it took.

    Args:
        environment: see `use_environment`.
        model: folder of the CTranslate2 model.
        text: folder of the run's text pipeline.
        decode: the settings of posnmt's `Decode`.
        batch: see `translate`.
        instructions: the processor's instruction set, as CT2_FORCE_CPU_ISA names it; None leaves it to CTranslate2.
        device: compute type and threads, as CTranslate2's `Translator` calls them.
    """
    if instructions is not None:
        os.environ["CT2_FORCE_CPU_ISA"] = instructions
    use_environment(Path(environment))
    import ctranslate2

    pipeline = TextPipeline.load(text)
    ids = {piece: number for number, piece in enumerate(pipeline.target.subwords.pieces)}
    translator = ctranslate2.Translator(model, **device)
    started = time.monotonic()
    found = translate(translator, pipeline, read_lines(Path(source)), Decode.model_validate(decode), batch)
    rows = [[ids[piece] for piece in result.hypotheses[0]] if result else [] for result in found]
    lines = "".join(f"{line}\n" for line in pipeline.target.decode(rows))
    Path(output).write_text(lines, encoding="utf-8", newline="\n")
    return time.monotonic() - started


def translate(
    translator: Any, text: TextPipeline, lines: Sequence[str], decode: Decode, batch: int, scores: bool = False
) -> list[Any]:
    """Translate lines with CTranslate2 and the search of posnmt's settings; a `TranslationResult` a line, in order.

    It has one limit of the output's length for all lines, the longest line's; an empty line gives None.

    Args:
        translator: the CTranslate2 `Translator`.
        batch: most padded source subwords of a batch.
        scores: whether results have scores; greedy search is quicker without.
    """
    pieces = text.source.subwords.split([text.source.words.split(line) for line in lines])
    filled = [line for line in pieces if line]
    longest = max(map(len, filled), default=0)
    found = iter(
        translator.translate_batch(
            filled,
            max_batch_size=batch,
            batch_type="tokens",
            beam_size=decode.beam,
            length_penalty=decode.length_penalty,
            max_input_length=0,
            max_decoding_length=int(decode.max_ratio * longest) + decode.max_extra + 1,
            min_decoding_length=0,
            return_scores=scores,
        )
    )
    return [next(found) if line else None for line in pieces]


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, split on the line feed alone."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def use_environment(folder: Path) -> None:
    """Make CTranslate2 importable here; it is installed into `folder` when it is not there.

    The folder comes last on the path: every package but CTranslate2 is posnmt's own.

    Raises:
        UserError: it cannot be installed.
    """
    if not (folder / "ctranslate2").is_dir():
        constraints = Path(__file__).with_name("constraints-ctranslate2.txt")
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", folder, "-r", constraints]
        if subprocess.run(pip, check=False).returncode:
            raise UserError("CTranslate2 could not be installed", folder, "see pip's message above")
    sys.path.append(str(folder.absolute()))
    importlib.invalidate_caches()


if __name__ == "__main__":
    main()
