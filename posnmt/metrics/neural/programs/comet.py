"""Score translations by a model of COMET 2.2: estimators with reference, quality estimators, XCOMET.

The model and its preparation of text are COMET's own; only its Lightning trainer is left out. Scores are computed in
single precision, as by `comet.models.CometModel.predict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

PACKAGES = ("unbabel-comet", "transformers", "torch")
ENCODER = ("*.json", "*.model", "*.txt")
"""The files of an encoder that its tokeniser and its configuration need; its weights are in COMET's checkpoint."""
Get = Callable[..., str]
Sentence = dict[str, str]


def find(model: str, get: Get, reference: bool) -> dict[str, str]:
    """Part → its folder: the checkpoint, and its encoder's tokeniser and configuration.

    Args:
        model: an id on the hub, a folder, or its file `checkpoints/….ckpt`.
        get: returns the folder of a model, by its id or path.
        reference: whether scores are to be against a reference.

    Raises:
        ValueError: it is no model of COMET, or not one for this metric.
    """
    folder = Path(model).resolve().parents[1] if model.endswith(".ckpt") else Path(get(model))
    settings = _settings(folder)
    checkpoint_of(folder)
    if reference not in reads(settings):
        metric = "comet-qe" if reference else "comet"
        raise ValueError(f"{model} {'reads no reference' if reference else 'needs a reference'}: it is for {metric}")
    return {"model": str(folder), "encoder": get(settings["pretrained_model"], ENCODER)}


def reads(settings: dict[str, Any]) -> set[bool]:
    """With and without a reference: what a model of these settings can do."""
    kind, segments = settings["class_identifier"], settings.get("input_segments", ["mt", "src", "ref"])
    if kind == "unified_metric":
        return {True} if "src" not in segments else {True, False} if "ref" in segments else {False}
    kinds = {"regression_metric": {True}, "referenceless_regression_metric": {False}, "xcomet_metric": {True, False}}
    if kind not in kinds:
        raise ValueError(f"a model of the kind {kind} gives no score of a translation")
    return kinds[kind]


def checkpoint_of(folder: Path) -> Path:
    """The checkpoint in the folder of a model."""
    found = sorted((folder / "checkpoints").glob("*.ckpt"))
    if len(found) != 1:
        raise ValueError(f"{folder}/checkpoints has {len(found)} files .ckpt; a model of COMET has one")
    return found[0]


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "hparams.yaml"
    if not path.is_file():
        raise ValueError(f"{folder} has no hparams.yaml, so it is no model of COMET")
    settings: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return settings


def load(paths: dict[str, str], reference: bool) -> Callable[[Sequence[Sentence]], list[tuple[float, bool]]]:
    """Load a model and return a function that scores sentences: for each its score, and whether its text was cut."""
    import torch
    from comet.models import str2model

    folder = Path(paths["model"])
    settings = _settings(folder)
    # As `comet.models.load_from_checkpoint`, with the encoder from a folder. Weights alone are unpickled, as PyTorch
    # does by default.
    model = str2model[settings["class_identifier"]].load_from_checkpoint(
        checkpoint_of(folder), load_pretrained_weights=False, pretrained_model=paths["encoder"], local_files_only=True,
        map_location="cpu", strict=False,
    )  # fmt: skip
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.eval().to(device)
    names = {"src": "source", "mt": "hypothesis", **({"ref": "reference"} if reference else {})}

    def scorer(sentences: Sequence[Sentence]) -> list[tuple[float, bool]]:
        samples = [{own: sentence[ours] for own, ours in names.items()} for sentence in sentences]
        batch = model.transfer_batch_to_device(model.prepare_for_inference(samples), device, 0)
        with torch.inference_mode():
            scores = model.predict_step(batch).scores
        return list(zip(scores.float().tolist(), _cut(model, samples), strict=True))

    return scorer


def _cut(model: Any, samples: Sequence[dict[str, str]]) -> list[bool]:
    """Whether the text of each sample is longer than the model reads: by `Encoder.prepare_sample` and, for models that
    read all parts as one, `Encoder.concat_sequences`.
    """
    encoder = model.encoder
    lengths = [
        [len(ids) for ids in encoder.tokenizer(list(sample.values()), add_special_tokens=False)["input_ids"]]
        for sample in samples
    ]
    one, together = encoder.max_positions - 4, encoder.max_positions
    if hasattr(model.hparams, "input_segments"):
        together -= 1 + len(samples[0]) * encoder.size_separator
        return [max(each) > one or sum(each) > together for each in lengths]
    return [max(each) > one for each in lengths]
