"""Write a run as a folder that Transformers loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from transformers import GenerationConfig, LogitsProcessorList

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.data.batch import pad
from posnmt.data.subword import BOS, EOS, PAD, UNK
from posnmt.data.text import TextPipeline
from posnmt.deploy.huggingface.code import carry
from posnmt.deploy.huggingface.config import PosnmtConfig
from posnmt.deploy.huggingface.generation import OwnLimits
from posnmt.deploy.huggingface.loading import WEIGHTS
from posnmt.deploy.huggingface.model import PosnmtForConditionalGeneration
from posnmt.deploy.huggingface.tokenizer import PosnmtTokenizer
from posnmt.model.base import TranslationModel
from posnmt.model.weights import stored, write_tensors

SERVES = frozenset(
    [
        *("beam", "length_penalty", "max_ratio", "max_extra", "min_length", "max_source", "batch", "precision"),
        *("split", "complete", "protect"),  # these concern lines, and `generate` translates each text as it is
    ]
)
"""Search settings that an export has, or that do not concern `generate`."""

BEAM = 3
"""Size of the beam in the search that checks an export; with several hypotheses the cache is reordered."""


def write(model: TranslationModel, text: TextPipeline, decode: Decode, folder: Path) -> bool:
    """Write configuration, code, weights, text pipeline and search settings into an existing folder.

    `generate` without arguments then uses the run's search settings in `SERVES`, and never writes `<pad>` or `<s>`.

    Returns:
        Whether the folder has the code (`posnmt.deploy.huggingface.code`).

    Raises:
        UserError: the model needs pairs of words, which the export cannot have.
    """
    if model.reads_pairs:
        what = f"an export for Transformers cannot have the pairs of words that {model.config.architecture} needs"
        raise UserError(what, "model.architecture", "translate with posnmt itself")
    config = PosnmtConfig(
        posnmt=model.config.model_dump(mode="json"),
        source_vocab_size=text.source.size,
        vocab_size=text.target.size,
        max_ratio=decode.max_ratio,
        max_extra=decode.max_extra,
        min_output=decode.min_length,
        architectures=[PosnmtForConditionalGeneration.__name__],
        dtype="float32",
    )
    carried = carry(config, folder)
    config.save_pretrained(folder)
    weights = {f"model.{name}": value.detach().contiguous() for name, value in stored(model.float()).items()}
    write_tensors(weights, folder / WEIGHTS, {"format": "pt"})
    text.save(folder)
    PosnmtTokenizer(str(folder / "text.json")).save_pretrained(folder)
    search_settings(decode).save_pretrained(folder)
    return carried


def search_settings(decode: Decode) -> GenerationConfig:
    """Settings of `generate` for posnmt's search, which stops when as many hypotheses have ended as the beam has."""
    return GenerationConfig(
        num_beams=decode.beam,
        length_penalty=decode.length_penalty,
        early_stopping=True,
        suppress_tokens=[PAD, UNK, BOS],
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
    )


class Loaded:
    """Load an export with Transformers and compute with it, for `posnmt.deploy.verify`."""

    def __init__(self, folder: Path) -> None:
        self.model = PosnmtForConditionalGeneration.from_pretrained(folder)
        self.name = f"Transformers {transformers.__version__}"

    @torch.inference_mode()
    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        """Return the natural log-probability of each target; see `Scorer.score`."""
        target, _ = pad(targets, after=EOS)
        labels = target.masked_fill(target == PAD, -100)
        logits = self.model(**_inputs(sources), labels=labels).logits.log_softmax(-1)
        scores = logits.gather(-1, target[..., None])[..., 0].masked_fill(target == PAD, 0.0).sum(-1)
        return [float(score) for score in scores]

    def search(self, sources: Sequence[Sequence[int]], length: int) -> tuple[list[list[int]], list[float]]:
        """See `Searcher.search`; the search is `generate` with a beam.

        Raises:
            UserError: this version of Transformers calls the model in a way that the model does not support.
        """
        try:
            outputs = self.model.generate(
                **_inputs(sources),
                logits_processor=LogitsProcessorList([OwnLimits([length] * len(sources))]),
                min_new_tokens=length,
                max_new_tokens=length + 1,
                num_beams=BEAM,
                length_penalty=0.0,
                return_dict_in_generate=True,
                output_scores=True,
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            what = f"{self.name} cannot generate with posnmt's models: {error}"
            raise UserError(what, None, "install another version of Transformers") from error
        return outputs.sequences[:, 1 : length + 1].tolist(), outputs.sequences_scores.tolist()


def _inputs(sources: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """Sources in the form of the tokenizer's output."""
    source, lengths = pad(sources, after=EOS)
    return {"input_ids": source, "attention_mask": (torch.arange(source.shape[1]) < lengths[:, None]).long()}
