"""posnmt's models as those of Transformers, and batches for them; it imports Transformers."""

from __future__ import annotations

import random

import torch

import posnmt.deploy.huggingface as hf
from posnmt.deploy.huggingface.export import search_settings
from tests.support import tiny


def wrapped(model, decode):
    """A posnmt model as one of Transformers, with the same weights."""
    config = hf.PosnmtConfig(
        posnmt=model.config.model_dump(mode="json"), source_vocab_size=tiny.VOCABULARY, vocab_size=tiny.VOCABULARY,
        max_ratio=decode.max_ratio, max_extra=decode.max_extra, min_output=decode.min_length,
    )  # fmt: skip
    other = hf.PosnmtForConditionalGeneration(config).double().eval()
    other.model.load_state_dict(model.state_dict())
    other.generation_config = search_settings(decode)
    return other


def padded(rows):
    """Rows with </s>, padded, and their mask."""
    width = max(map(len, rows)) + 1
    ids = torch.tensor([[*row, 3, *[0] * (width - len(row) - 1)] for row in rows])
    mask = torch.tensor([[1] * (len(row) + 1) + [0] * (width - len(row) - 1) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


def stripped(row):
    """The subwords between <s> and </s>."""
    row = row.tolist()[1:]
    return row[: row.index(3)] if 3 in row else row


def drawn(lengths=(1, 4, 6)):
    draw = random.Random(5)
    return [[draw.randrange(4, tiny.VOCABULARY) for _ in range(length)] for length in lengths]
