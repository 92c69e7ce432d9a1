"""Marian models in Transformers and, imported, in posnmt: the same subwords, translations and probabilities."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from posnmt.config.schema import Decode
from posnmt.data.subword import EOS
from posnmt.run.run import Run
from posnmt.translate.bounds import output_limit
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator
from tests.support import marian
from tests.support.commands import run

transformers = pytest.importorskip("transformers", reason="Transformers are not installed (make test-peers)")

LINES = [*(pair.source for pair in marian.PAIRS[:6]), f"{marian.CODE} {marian.PAIRS[7].source}", "zzz qqq ✗"]
TARGETS = [*(pair.target for pair in marian.PAIRS[:7]), "✗ zzz"]

KINDS: dict[str, dict[str, Any]] = {
    "swish, one table": {},
    "relu, tables of their own": {
        "activation_function": "relu", "share_encoder_decoder_embeddings": False, "ends": 7.0,
    },
    "gelu, untied": {"activation_function": "gelu", "tie_word_embeddings": False, "ends": 13.0},
    "without some pieces, unscaled, of pickle": {"missing": 12, "scale_embedding": False, "file": "pytorch_model.bin"},
    "of BPE, with uneven depths": {"kind": "bpe", "encoder_layers": 3, "decoder_layers": 1, "ends": 8.0},
}  # fmt: skip


@pytest.fixture(params=KINDS)
def both(request, tmp_path):
    """The model and the tokenizer of Transformers, and the translator of the imported run."""
    folder = marian.write(tmp_path / "theirs", **KINDS[request.param])
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    if not list(folder.glob("*.bin")):
        folder = tmp_path / "saved"  # by Transformers
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    run("import", "marian-hf", folder, "--out", tmp_path / "ours")
    return model, tokenizer, Translator.load([Run.open(tmp_path / "ours")])


@torch.inference_mode()
def test_an_imported_model_is_the_one_of_transformers(both):
    model, tokenizer, translator = both
    pieces = translator.text.source.subwords.pieces
    inputs = [tokenizer([line], return_tensors="pt") for line in LINES]
    encoded, names = translator.text.source.encode(LINES), {ids: piece for piece, ids in tokenizer.encoder.items()}
    for ids, theirs in zip(encoded, inputs, strict=True):
        shown = [pieces[number].removeprefix("▁") for number in [*ids, EOS]]
        assert shown == [names[number].removeprefix("▁") for number in theirs["input_ids"][0].tolist()]

    ended = set()
    for beam in (1, 3):
        decode = Decode(beam=beam, length_penalty=0.8, max_ratio=1.0, max_extra=5)
        for line, ids, given in zip(LINES, encoded, inputs, strict=True):
            most = output_limit(decode, len(ids), None) + 1
            [theirs] = model.generate(**given, num_beams=beam, early_stopping=True, max_new_tokens=most)
            [ours] = translator.translate(numbered([line]), Search(decode))
            ended.add((beam, len(theirs) < most + 1))
            if beam == 1 or len(theirs) < most + 1:  # Transformers ranks an end that it forces as if it were certain
                assert ours.text == tokenizer.decode(theirs, skip_special_tokens=True)
    assert ended >= {(1, True), (1, False), (3, True)}

    scores = translator.score(LINES, TARGETS)
    for given, target, score in zip(inputs, TARGETS, scores, strict=True):
        labels = tokenizer(text_target=[target], return_tensors="pt")["input_ids"]
        logits = model(**given, labels=labels).logits.log_softmax(-1)
        assert score == pytest.approx(logits.gather(-1, labels[..., None]).sum().item(), abs=1e-3)
