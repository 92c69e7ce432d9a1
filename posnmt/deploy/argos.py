"""Export a package for Argos Translate: a CTranslate2 model, a SentencePiece model, and a spaCy pipeline for sentences.

Argos splits source text into subwords and joins target subwords with one SentencePiece model, and changes text in no
other way. So the run must have one vocabulary and one target language, and must not tokenise or truecase.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.base.output import replacing
from posnmt.data.text import TextPipeline
from posnmt.deploy.command import run_to_export, say_verified, write_verified
from posnmt.deploy.ctranslate2 import write
from posnmt.deploy.server.languages import language_name

SUFFIX = ".argosmodel"

ENDS = ".!?…。．！？｡।۔؟"
"""Characters that end a sentence. spaCy's sentencizer knows them if they are tokens of their own."""

TOKENIZER = {"suffix_search": f"[{ENDS}]$", "infix_finditer": "[。！？｡]"}

CONFIG = """[nlp]
lang = "xx"
pipeline = []
disabled = []
before_creation = null
after_creation = null
after_pipeline_creation = null
batch_size = 1000

[nlp.tokenizer]
@tokenizers = "spacy.Tokenizer.v1"

[nlp.vectors]
@vectors = "spacy.Vectors.v1"

[components]
"""
"""The configuration of a spaCy pipeline for no particular language and without components. Argos adds a sentencizer."""


def refuse(text: TextPipeline, marks: Iterable[str]) -> None:
    """Check that Argos can process text in the way that the model was trained with.

    Args:
        text: the run's text pipeline.
        marks: marks of target languages in the training text.

    Raises:
        UserError: the run has two vocabularies, tokenises or truecases text, or needs a mark before each text.
    """
    todo = "use --format ctranslate2, or posnmt serve for LibreTranslate's clients"
    if listed := ", ".join(marks):
        what = f"Argos puts no language tags before text, but this run needs {listed}"
        raise UserError(what, None, todo)
    if not (text.shared and text.source.subwords.model == text.target.subwords.model):
        raise UserError("Argos has one SentencePiece model for both sides, but this run has two", None, todo)
    for side in (text.source.words, text.target.words):
        if side.tokeniser != "none" or side.truecaser is not None:
            what = "Argos cannot tokenise or truecase text, but this run does"
            raise UserError(what, None, todo)


def export(
    run_folder: Path,
    out: Path,
    checkpoint: str,
    size: int,
    precision: str,
    languages: tuple[str, str] | None,
    say: Callable[[str], None],
) -> None:
    """Write a run's model as a package.

    Args:
        run_folder: the run.
        out: the new file, `NAME.argosmodel`.
        checkpoint, size, precision, say: see `posnmt.deploy.command.export`.
        languages: codes of source and target; None: those of the run's configuration.

    Raises:
        UserError: the name of the output does not end in `.argosmodel`, or `refuse` or `posnmt.deploy.command.export`
            raise it.
    """
    if out.suffix != SUFFIX:
        todo = f"choose --out {out.with_suffix(SUFFIX)}"
        raise UserError(f"the name of a package for Argos ends in {SUFFIX}", out, todo)
    if out.exists():
        raise UserError("the output exists already and is not overwritten", out, "choose another --out")
    if not out.resolve().parent.is_dir():
        raise UserError("the parent folder of the output does not exist", out, "create it, or choose another --out")
    run = run_to_export(run_folder)
    text, data = run.text(), run.config.data
    refuse(text, run.marks)
    codes = languages or (data.source_language, data.target_language)
    model = run.model(checkpoint)
    with tempfile.TemporaryDirectory(prefix="posnmt-") as place, replacing(out) as partial:
        engine, verified = write_verified(model, text, Path(place), size)
        if precision != "fp32":
            write(model, text, Path(place), size, precision)
        _pack(Path(place), text, codes, partial)
    say_verified(dict(zip(("source", "target"), engine.longest, strict=True)), verified, say)
    say("Argos itself cuts off sentences after 1,024 subwords and translations after 256, and writes _ as a space")


def _pack(model: Path, text: TextPipeline, languages: tuple[str, str], out: Path) -> None:
    """Write the package of the CTranslate2 model in a folder."""
    metadata = {
        "package_version": "1.0",
        "argos_version": "1.9.0",
        "from_code": languages[0],
        "from_name": language_name(languages[0]),
        "to_code": languages[1],
        "to_name": language_name(languages[1]),
        "type": "translate",
    }
    folder = f"posnmt-{languages[0]}_{languages[1]}"
    contents = {
        "metadata.json": json.dumps(metadata, indent=1).encode(),
        "sentencepiece.model": text.source.subwords.model,
        "spacy/config.cfg": CONFIG.encode(),
        "spacy/meta.json": json.dumps({"lang": "xx", "name": "sentences", "version": "1.0.0"}).encode(),
        "spacy/tokenizer": _message(TOKENIZER),
        **{f"model/{path.name}": path.read_bytes() for path in sorted(model.iterdir()) if path.is_file()},
    }
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in contents.items():
            member = zipfile.ZipInfo(f"{folder}/{name}")  # of a fixed date: the same model gives the same bytes
            member.external_attr = 0o644 << 16
            package.writestr(member, content, zipfile.ZIP_DEFLATED)


def _message(texts: dict[str, str]) -> bytes:
    """A dictionary of short texts in the format MessagePack, which spaCy reads."""
    flat = [each.encode() for pair in texts.items() for each in pair]
    return bytes([0x80 + len(texts)]) + b"".join(bytes([0xD9, len(each)]) + each for each in flat)
