"""`posnmt export`, and `posnmt translate` by another engine than PyTorch."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.files import sha256_of
from posnmt.base.output import write_text
from posnmt.config.schema import Decode, Positions
from posnmt.data.text import TextPipeline
from posnmt.deploy.card import card
from posnmt.deploy.ctranslate2 import package, write
from posnmt.deploy.engines.ctranslate2 import CTranslate2Engine
from posnmt.deploy.folder import Manifest, describe, is_exported, new_folder, open_folder, seal
from posnmt.deploy.verify import verify
from posnmt.model.base import TranslationModel
from posnmt.run.run import EXPORTED, Run
from posnmt.translate.engine import Engine
from posnmt.translate.engines import ModelChoice
from posnmt.translate.options import SPEED_ALONE, unserved, with_options
from posnmt.translate.runs import fingerprint, least_several, longest_trained, trained_model
from posnmt.translate.translator import choose_runs

POSITIONS = 8192
"""Entries of position tables that could have any length, if a run is converted for one call."""

NO_TORCH = "leave it out, or translate the run with --engine torch"


def export(
    folder: Path, kind: str, out: Path, checkpoint: str, size: int, precision: str, say: Callable[[str], None]
) -> Manifest:
    """Write a run's model for another program, with the run's text pipeline and a manifest.

    Args:
        folder: the run.
        kind: `ctranslate2` or `huggingface`.
        out: a new folder.
        checkpoint: see `Run.weights`.
        size: for CTranslate2, entries of position tables that could have any length.
        precision: precision of the weights: `fp32`, or for CTranslate2 also `int8`.
        say: called with notes for the user.

    Raises:
        UserError: the folder is not a run; the output exists; or the program is not installed, cannot express the
            model, or computes something else.
    """
    if kind == "huggingface" and precision != "fp32":
        raise UserError("--format huggingface writes weights in fp32 only", "--precision", "leave it out")
    run = run_to_export(folder)
    carried = False
    with new_folder(out) as building:
        model, text = run.model(checkpoint), run.text()
        longest: tuple[int | None, int | None] = model.longest_source, model.longest_target
        if kind == "ctranslate2":
            engine, verified = write_verified(model, text, building, size)
            longest = engine.longest
            if precision != "fp32":
                write(model, text, building, size, precision)
            text.save(building / "text")
        else:
            verified, carried = _write_huggingface(model, text, run.config.decode, building, say)
        manifest = Manifest(
            kind=kind,  # type: ignore[arg-type]
            precision=precision,
            limits=dict(zip(("source", "target"), longest, strict=True)),
            verified=verified,
            code=carried,
            **describe(run, checkpoint),
        )
        if kind == "huggingface":
            write_text(building / "README.md", card(run, manifest))
        seal(building, manifest)
    say_verified(manifest.limits, verified, say)
    return manifest


def run_to_export(folder: Path) -> Run:
    """Open a run that will be exported.

    Raises:
        UserError: the folder is not a run, or its configuration changes positions at inference.
    """
    run = Run.open(folder)
    if run.config.decode.positions.changed:
        what = "decode.positions changes positions at inference, but an exported model has those of training"
        raise UserError(what, folder / "config.yaml", "remove it there, and use `posnmt translate --positions`")
    return run


def say_verified(limits: dict[str, int | None], verified: dict[str, Any], say: Callable[[str], None]) -> None:
    """Report the longest text of each side, and the figures of the check that the exported model computes the same."""
    for side, limit in limits.items():
        what = "any length" if limit is None else f"at most {limit - 1:,} subwords; a longer line is an error"
        say(f"{side} lines: {what}")
    say(
        f"{verified['program']} agrees with posnmt on {verified['pairs']} random pairs: log-probabilities of a subword"
        f" differ by at most {verified['largest_difference']:g}"
    )


def choose_exported(
    folders: Sequence[Path], checkpoint: str, search: dict[str, Any], asked: Collection[str] = ()
) -> ModelChoice:
    """Choose CTranslate2 for an exported model, or for a run that is converted for this call.

    Args:
        folders, checkpoint, asked: see `engines.choose`.
        search: see `engines.choose`; the precision is `fp32` or `int8`.

    Raises:
        UserError: there are several folders, CTranslate2 or an exported model does not serve an option, or CTranslate2
            cannot express the model or computes something else.
    """
    if len(folders) > 1:
        raise UserError("CTranslate2 translates with one model, not with an ensemble", None, NO_TORCH)
    precision = search.get("precision")
    if precision == "bf16":
        raise UserError("CTranslate2 does not translate in bf16", "--precision", NO_TORCH)
    CTranslate2Engine.refuse(None, [*(f"decode.{name}" for name in _faster(search)), *asked])
    chosen = _opened(folders[0], checkpoint, search)
    CTranslate2Engine.refuse(chosen.decode)
    return chosen


def choose_either(
    folders: Sequence[Path], checkpoint: str, search: dict[str, Any], asked: Collection[str] = ()
) -> ModelChoice:
    """Choose CTranslate2 in fp32 for a run if it can express the model and serves the options; otherwise PyTorch.

    For an exported model choose CTranslate2. The arguments are those of `engines.choose`.
    """
    if search.get("precision") == "int8":
        raise UserError("--engine auto does not use int8", "--precision", "add --engine ctranslate2")
    if is_exported(folders[0]):
        return choose_exported(folders, checkpoint, search, asked)
    if _faster(search):
        return choose_runs(folders, checkpoint, search)
    chosen = _opened(folders[0], checkpoint, search)

    def load() -> Engine:
        try:
            CTranslate2Engine.refuse(chosen.decode, asked)
            return chosen.load()
        except UserError as error:
            print(f"note: translated by PyTorch: {error.placed}", file=sys.stderr)
            return choose_runs(folders, checkpoint, search).load()

    return replace(chosen, load=load)


def _opened(folder: Path, checkpoint: str, search: dict[str, Any]) -> ModelChoice:
    """Choose CTranslate2 for an exported model, or for a run, which is converted when the engine is loaded."""
    settings, precision = {**search, "precision": None}, search.get("precision")
    precision = None if precision == "auto" else precision
    load: Callable[[], Engine]
    if is_exported(folder):
        decode, load, marks, known = _exported(folder, checkpoint, precision, settings)
        identify = partial(sha256_of, folder / EXPORTED)
    else:
        run = Run.open(folder)
        decode, marks, known = run.config.decode, run.marks, run.known_marks
        load = partial(_converted, run, checkpoint, precision or "fp32", with_options(decode, settings).positions)
        identify = partial(fingerprint, run, checkpoint)

    def identity() -> dict[str, Any]:
        return {"models": [identify()], "products": precision}

    return ModelChoice(with_options(decode, settings), load, identity, lambda: marks, lambda: known)


def _faster(search: dict[str, Any]) -> list[str]:
    """The options in use that change speed alone and that CTranslate2 does not serve."""
    return [name for name in SPEED_ALONE - CTranslate2Engine.serves if search.get(name)]


def _exported(
    folder: Path, checkpoint: str, precision: str | None, search: dict[str, Any]
) -> tuple[Decode, Callable[[], Engine], dict[str, int], Sequence[str]]:
    """An exported model's settings of search, the function that loads its engine, and its marks.

    The marks are those of target languages, and those of corpora.
    """
    manifest, text = open_folder(folder)
    if "positions" in search:
        what = "positions of an exported model cannot be changed"
        raise UserError(what, folder, "translate with the run, or leave --positions out")
    if checkpoint not in ("model", manifest.checkpoint):
        what = f"this is checkpoint {manifest.checkpoint} of the run, not {checkpoint}"
        raise UserError(what, folder, "export the other one, or leave --checkpoint out")
    if precision == "fp32" and manifest.precision == "int8":
        todo = "export the run with --precision fp32, or leave --precision out"
        raise UserError("the weights of this model are int8", folder, todo)
    package()
    limits = manifest.limits["source"], manifest.limits["target"]
    trained = manifest.training_lengths["source"]["longest"] if manifest.training_lengths else None
    several = (manifest.sentences_per_line or {}).get("source")

    def load() -> Engine:
        return CTranslate2Engine(folder, text, limits, precision or manifest.precision, trained, several)

    return manifest.decode, load, manifest.marks, text.source.marks


def _converted(run: Run, checkpoint: str, precision: str, positions: Positions) -> CTranslate2Engine:
    """The engine for a run, which is converted into a temporary folder."""
    if positions.temperature is not None:
        raise UserError("CTranslate2 has no temperature of attention", "decode.positions.temperature", NO_TORCH)
    text, trained = run.text(), longest_trained([run], positions)
    with tempfile.TemporaryDirectory(prefix="posnmt-") as place:
        engine, _ = write_verified(trained_model(run, checkpoint, positions), text, Path(place), POSITIONS)
        if precision != "fp32":
            engine = CTranslate2Engine(Path(place), text, engine.longest, precision)
        engine.trained, engine.several = trained, least_several([run])
        return engine


def write_verified(
    model: TranslationModel, text: TextPipeline, folder: Path, size: int
) -> tuple[CTranslate2Engine, dict[str, Any]]:
    """Write a CTranslate2 model in fp32. Return its engine, and the figures of the check that it computes the same."""
    engine = CTranslate2Engine(folder, text, write(model, text, folder, size))
    return engine, verify(model, text, engine.longest, engine)


def _write_huggingface(
    model: TranslationModel, text: TextPipeline, decode: Decode, folder: Path, say: Callable[[str], None]
) -> tuple[dict[str, Any], bool]:
    """Write a model for Transformers.

    Returns:
        (the figures of the check that it computes the same there, whether the folder has the code)
    """
    try:
        from posnmt.deploy.huggingface import export as transformers
    except ImportError as error:
        if error.name and error.name.startswith("posnmt"):
            raise
        what = "Hugging Face's Transformers are not installed here"
        raise UserError(what, None, 'install them: pip install "posnmt[huggingface]"') from None
    carried = transformers.write(model, text, decode, folder)
    if not carried:
        say("a position scheme is not posnmt's own: the folder has no code, and loads only where posnmt and it are")
    if left_out := unserved(transformers.SERVES, decode):
        what = ", ".join(left_out)
        say(f"not available in Transformers' generate, which searches each line with a beam: {what}")
    longest = model.longest_source, model.longest_target
    return verify(model, text, longest, transformers.Loaded(folder)), carried
