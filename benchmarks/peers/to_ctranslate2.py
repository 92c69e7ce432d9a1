"""A posnmt run as a CTranslate2 model, and whether the two translate alike.

    python benchmarks/peers/to_ctranslate2.py RUN OUTPUT --environment ENVIRONMENT [--check FILE] [--sentences 500]

RUN is a run folder of the Transformer with sinusoidal, learned or relative positions on each side; OUTPUT is a new
folder. ENVIRONMENT is a folder with CTranslate2, made when it is missing. With --check the first sentences of FILE, one
a line, are translated by both in float32, greedily and with beam 4, and the equal outputs are counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from decode_once import read_lines, translate, use_environment

from posnmt.data.subword import BOS, EOS, UNK
from posnmt.errors import UserError, existing_file
from posnmt.model.ordered import OrderedEmbedding
from posnmt.model.transformer import Transformer
from posnmt.position.absolute import Learned, Sinusoidal, sinusoids
from posnmt.position.relative import Relative, RelativeKeysAndValues
from posnmt.run import Run
from posnmt.translate.translator import Translator

POSITIONS = 2048
"""Rows of a table of sinusoids; CTranslate2 stops with an error at a longer sentence."""


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
        UserError: the folder exists; a pre-norm model; an architecture or a position scheme that CTranslate2 has not.
    """
    if folder.exists():
        raise UserError("the output exists already, and nothing is written over", folder, "name a new folder")
    model = run.model(checkpoint).float()
    if type(model) is not Transformer:
        raise UserError(f"CTranslate2 has no {run.config.model.architecture}", run.folder, "convert a Transformer")
    if model.config.norm != "post":
        raise UserError("only post-norm models are converted", run.folder, "convert a run with model.norm: post")
    spec = specification(model, run)
    text = run.text()
    source, target = text.source.subwords.pieces, text.target.subwords.pieces
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = target[UNK], target[BOS], target[EOS]
    spec.config.decoder_start_token = target[BOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.encoder[0].attention_norm.eps
    spec.validate()
    spec.optimize()  # tied matrices are stored once
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def specification(model: Transformer, run: Run) -> Any:
    """The CTranslate2 `TransformerSpec` of a model: post-norm, embeddings times sqrt(d), no final normalisation."""
    from ctranslate2 import specs

    heads = model.config.heads
    relative = [is_relative(run, "encoder", model.source), is_relative(run, "decoder", model.target)]
    encoder = specs.TransformerEncoderSpec(len(model.encoder), heads, pre_norm=False, relative_position=relative[0])
    decoder = specs.TransformerDecoderSpec(len(model.decoder), heads, pre_norm=False, relative_position=relative[1])
    encoder.embeddings[0].weight, decoder.embeddings.weight = model.source.table.weight, model.target.table.weight
    for made, layer in zip([*encoder.layer, *decoder.layer], [*model.encoder, *model.decoder], strict=True):
        fill_linears(made.self_attention.linear, [layer.attention.project, layer.attention.output])
        fill_norm(made.self_attention.layer_norm, layer.attention_norm)
        fill_linears([made.ffn.linear_0, made.ffn.linear_1], [layer.feed_forward.rise, layer.feed_forward.fall])
        fill_norm(made.ffn.layer_norm, layer.feed_forward_norm)
    for made, layer in zip(decoder.layer, model.decoder, strict=True):
        fill_linears(made.attention.linear, [layer.cross.query, layer.cross.memory, layer.cross.output])
        fill_norm(made.attention.layer_norm, layer.cross_norm)
    fill_linears([decoder.projection], [model.output])
    fill_positions(encoder, model.source)
    fill_positions(decoder, model.target)
    return specs.TransformerSpec(encoder, decoder)


def is_relative(run: Run, side: str, embedding: OrderedEmbedding) -> bool:
    """Whether a stack's one position scheme is relative.

    Raises:
        UserError: schemes that CTranslate2 has not, or not together.
    """
    schemes = [type(scheme) for scheme in embedding.position_schemes()]
    if len(schemes) == 1 and schemes[0] in (Sinusoidal, Learned, Relative):
        return schemes[0] is Relative
    names = " + ".join(choice.scheme for choice in getattr(run.config.model, side).position) or "none"
    raise UserError(
        f"CTranslate2 cannot have the {side}'s positions, {names}",
        run.folder,
        "convert a run with one of sinusoidal, learned and relative on each side",
    )


def fill_positions(stack: Any, embedding: OrderedEmbedding) -> None:
    """The table of absolute positions, or each layer's vectors for the clipped distances -k .. k from query to key.

    Sinusoids are given as a table: CTranslate2's own have all sines before all cosines, and count from 1.
    """
    from ctranslate2.specs.model_spec import OPTIONAL

    scheme = embedding.position_schemes()[0]
    if isinstance(scheme, Sinusoidal):
        stack.position_encodings.encodings = sinusoids(torch.arange(POSITIONS), scheme.width).float()
    elif isinstance(scheme, Learned):
        stack.position_encodings.encodings = scheme.table
    elif isinstance(scheme, Relative):
        for made, view in zip(stack.layer, scheme.layers, strict=True):
            values = isinstance(view, RelativeKeysAndValues)
            made.self_attention.relative_position_keys = view.keys
            made.self_attention.relative_position_values = view.additions if values else OPTIONAL


def fill_linears(made: Sequence[Any], linears: Sequence[torch.nn.Linear]) -> None:
    """Weights and biases; queries, keys and values are fused, in this order, on both sides."""
    for one, linear in zip(made, linears, strict=True):
        one.weight, one.bias = linear.weight, linear.bias


def fill_norm(made: Any, norm: torch.nn.LayerNorm) -> None:
    made.gamma, made.beta = norm.weight, norm.bias


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
            ours.translate(lines, decode, beam), translate(theirs, text, lines, decode, 1024, True), strict=True
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
