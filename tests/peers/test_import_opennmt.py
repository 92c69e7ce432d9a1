"""OpenNMT-py's own model and, imported, posnmt's: the same subwords, greedy output and probabilities.

OpenNMT-py's beam search ends by a rule of its own, so that only what both searches rank can be compared.
"""

from __future__ import annotations

from argparse import Namespace

import pytest
import sentencepiece
import torch

from posnmt.config.schema import Decode
from posnmt.run.run import Run
from posnmt.translate.bounds import output_limit
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator
from tests.peers.opennmt import opennmt
from tests.support import marian, onmt_checkpoint
from tests.support.commands import run

LINES = [*(pair.source for pair in marian.PAIRS[:6]), "zzz qqq ✗"]
TARGETS = [*(pair.target for pair in marian.PAIRS[:6]), "✗ zzz"]

KINDS = {
    "sinusoids": {},
    "Shaw": {"position_encoding": False, "max_relative_positions": 3, "add_qkvbias": True},
    "one table, of words": {"share_embeddings": True, "share_decoder_embeddings": True, "words": True},
    "tied target, in two files": {"share_decoder_embeddings": True, "apart": True, "pos_ffn_activation_fn": "gelu"},
    "without some pieces and biases": {"missing": 12, "add_ffnbias": False, "dec_layers": 1, "layers": -1},
}


def theirs(opt, tree):
    """OpenNMT-py's model with the weights of a checkpoint, all of which it takes, and its projection."""
    embeddings = opennmt("modules.embeddings").Embeddings
    sides = []
    for side, kind in (("src", "encoders.transformer"), ("tgt", "decoders.transformer")):
        name = "TransformerEncoder" if side == "src" else "TransformerDecoder"
        table = embeddings(
            32, len(tree["vocab"][side]), tree["vocab"][side].index("<blank>"), opt.position_encoding,
            opt.position_encoding_type,
        )  # fmt: skip
        sides.append(getattr(opennmt(kind), name).from_opt(opt, table))
    model = opennmt("models.model").NMTModel(*sides)
    own = {name: tensor for name, tensor in model.state_dict().items() if name.endswith(".pe")}  # it computes positions
    torch.nn.Module.load_state_dict(model, tree["model"] | own)
    output = torch.nn.Linear(32, len(tree["vocab"]["tgt"]))
    output.load_state_dict(tree["generator"])
    for module in model.modules():
        if hasattr(module, "dropout_p"):
            module.dropout_p = 0.0
    return model.eval(), output


@pytest.fixture(params=KINDS)
def both(request, tmp_path):
    """The checkpoint, OpenNMT-py's model and projection, and the translator of the imported run."""
    settings = KINDS[request.param]
    path = onmt_checkpoint.write(tmp_path / "model_step_7.pt", **settings)
    with torch.serialization.safe_globals([Namespace]):
        whole = torch.load(onmt_checkpoint.write(tmp_path / "whole.pt", **settings | {"apart": False}))
    options = ["--subwords", "none"]
    if "words" not in settings:
        for side in ("source", "target"):
            (tmp_path / f"{side}.spm").write_bytes(marian.spm(side))
        options = [each for side in ("source", "target") for each in (f"--{side}-subwords", tmp_path / f"{side}.spm")]
    run("import", "opennmt-py", path, "--languages", "en-fr", *options, "--out", tmp_path / "ours")
    return whole, theirs(whole["opt"], whole), Translator.load([Run.open(tmp_path / "ours")])


def split(lines, side, tokens):
    """The ids of lines as OpenNMT-py has them."""
    words = any("▁" in token for token in tokens) is False
    processor = sentencepiece.SentencePieceProcessor(model_proto=marian.spm(side))
    ids = {token: number for number, token in enumerate(tokens)}
    rows = [line.split() if words else processor.encode(line, out_type=str) for line in lines]
    return [[ids.get(piece, 0) for piece in row] for row in rows]


@torch.inference_mode()
def test_an_imported_model_is_the_one_of_opennmt(both):
    tree, (model, output), translator = both
    source, target = (split(lines, side, tree["vocab"][key]) for lines, side, key in
                      ((LINES, "source", "src"), (TARGETS, "target", "tgt")))  # fmt: skip
    decode = Decode(beam=1, max_ratio=1.0, max_extra=5)
    scores = translator.score(LINES, TARGETS)
    pieces, ended = translator.text.target.subwords.pieces, set()
    for line, ids, reference, score in zip(LINES, source, target, scores, strict=True):
        given, length = torch.tensor(ids)[None, :, None], torch.tensor([len(ids)])
        encoded, _, _ = model.encoder(given, length)
        model.decoder.init_state(given, encoded, None)
        written = [2]
        for step in range(output_limit(decode, len(ids), None)):
            last = torch.tensor([[[written[-1]]]])
            hidden, _ = model.decoder(last, encoded, src_len=length, step=step)
            logits = output(hidden[0, -1])
            logits[[1, 2]] = -torch.inf  # which posnmt never writes
            written.append(int(logits.argmax()))
            if written[-1] == 3:
                break
        ended.add(written[-1] == 3)
        [ours] = translator.translate(numbered([line]), Search(decode))
        names = {0: "<unk>", 3: "</s>"}
        shown = [names.get(number, tree["vocab"]["tgt"][number]) for number in written[1:] if number != 3]
        assert [pieces[number].removeprefix("▁") for number in ours.hypotheses[0].tokens] == [
            piece.removeprefix("▁") for piece in shown
        ]
        rows = torch.tensor([2, *reference])[None, :, None], torch.tensor([*reference, 3])
        hidden, _ = model.decoder(rows[0], encoded, src_len=length)
        probabilities = output(hidden[0]).log_softmax(-1)
        assert score == pytest.approx(probabilities[torch.arange(len(rows[1])), rows[1]].sum().item(), abs=1e-3)
    assert ended == {True, False}  # some outputs end by themselves
