"""A plain float32 training loop for Hugging Face's MarianMTModel on batches that are made beforehand.

    python speed_huggingface.py SIZE.json BATCHES.jsonl [--seed N] [--warmup N]
                                [--dev DEV.jsonl --every N --outputs OUTPUTS.jsonl]

Runs in the environment of `constraints-huggingface.txt`. SIZE.json has width, feed_forward, heads, layers, vocabulary,
and the numbers of pad, bos and eos; BATCHES.jsonl a batch a line, a list of [source, target], without bos and eos.
Makes one update for each batch and prints what `speed_launch.py` prints. With DEV.jsonl, batches alike, it prints their
perplexity every N updates and after the last, and writes greedy translations, a list of numbers a line.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from speed_launch import Counter
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel, get_inverse_sqrt_schedule

IGNORED = -100
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Source, what the decoder reads, what it is to predict; each [rows, tokens]."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=Path)
    parser.add_argument("batches", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=600)
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--outputs", type=Path)
    arguments = parser.parse_args()
    size = json.loads(arguments.size.read_text(encoding="utf-8"))
    torch.manual_seed(arguments.seed)
    model = build(size).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)
    schedule = get_inverse_sqrt_schedule(optimizer, num_warmup_steps=arguments.warmup)
    print(f"{sum(parameter.numel() for parameter in model.parameters())} parameters")
    batches = read(arguments.batches, size)
    dev = read(arguments.dev, size) if arguments.dev else []
    counter = Counter()
    for number, batch in enumerate(batches, start=1):
        loss = entropy(model, batch, size["pad"], label_smoothing=0.1)
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        loss.item()
        counter.add(int(batch[2].ne(IGNORED).sum()))
        if dev and (number % arguments.every == 0 or number == len(batches)):
            print(f"updates {number}, dev perplexity {perplexity(model, dev, size['pad']):.4f}", flush=True)
    if arguments.outputs:
        rows = [json.dumps(row) for batch in dev for row in greedy(model, batch[0], size)]
        arguments.outputs.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def build(size: dict[str, int]) -> MarianMTModel:
    """A new model, its weights as the toolkit draws them."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=size["vocabulary"], d_model=size["width"],
            encoder_layers=size["layers"], decoder_layers=size["layers"],
            encoder_attention_heads=size["heads"], decoder_attention_heads=size["heads"],
            encoder_ffn_dim=size["feed_forward"], decoder_ffn_dim=size["feed_forward"],
            dropout=0.1, attention_dropout=0.0, activation_dropout=0.0, activation_function="relu",
            scale_embedding=True, share_encoder_decoder_embeddings=True, tie_word_embeddings=True, use_cache=False,
            pad_token_id=size["pad"], eos_token_id=size["eos"], forced_eos_token_id=size["eos"],
            decoder_start_token_id=size["bos"],
        )
    )  # fmt: skip


def padded(rows: list[list[int]], value: int) -> torch.Tensor:
    """Rows of numbers as one tensor."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def read(path: Path, size: dict[str, int]) -> list[Batch]:
    """The batches of a file."""
    bos, eos, pad, batches = size["bos"], size["eos"], size["pad"], []
    for line in path.read_text(encoding="utf-8").splitlines():
        sources, targets = zip(*json.loads(line), strict=True)
        source = padded([[*row, eos] for row in sources], pad)
        target = padded([[*row, eos] for row in targets], IGNORED)
        batches.append((source, padded([[bos, *row] for row in targets], pad), target))
    return batches


def entropy(model: MarianMTModel, batch: Batch, pad: int, **options: Any) -> torch.Tensor:
    """The loss of a batch."""
    source, target_in, target_out = batch
    output = model(input_ids=source, attention_mask=source.ne(pad).long(), decoder_input_ids=target_in)
    return cross_entropy(output.logits.flatten(0, 1), target_out.flatten(), ignore_index=IGNORED, **options)


def perplexity(model: MarianMTModel, dev: list[Batch], pad: int) -> float:
    """Of dev, for each target subword and end of sentence."""
    model.eval()
    with torch.inference_mode():
        total = sum(entropy(model, batch, pad, reduction="sum").item() for batch in dev)
    model.train()
    return math.exp(total / sum(int(batch[2].ne(IGNORED).sum()) for batch in dev))


def greedy(model: MarianMTModel, source: torch.Tensor, size: dict[str, int]) -> list[list[int]]:
    """Greedy translations, at most twice as long as the source and 50 more, without bos and eos."""
    model.eval()
    special = {size["pad"], size["bos"], size["eos"]}
    with torch.inference_mode():
        found = model.generate(
            input_ids=source, attention_mask=source.ne(size["pad"]).long(), num_beams=1, do_sample=False,
            use_cache=True, max_new_tokens=2 * source.shape[1] + 50,
        )  # fmt: skip
    rows = [row[1:] for row in found.tolist()]
    ends = [row.index(size["eos"]) if size["eos"] in row else len(row) for row in rows]
    return [[number for number in row[:end] if number not in special] for row, end in zip(rows, ends, strict=True)]


if __name__ == "__main__":
    main()
