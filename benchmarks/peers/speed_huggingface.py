"""A plain float32 training loop for Hugging Face's MarianMTModel on batches that are made beforehand.

    python speed_huggingface.py SIZE.json BATCHES.jsonl [DEV.jsonl SEED]

Runs in the environment of `constraints-huggingface.txt`. SIZE.json has width, feed_forward, heads, layers, vocabulary,
and the numbers of pad, bos and eos; BATCHES.jsonl a batch a line, a list of [source, target], without bos and eos.
Makes one update for each batch and prints what `speed_launch.py` prints. With DEV.jsonl, batches alike, it prints their
perplexity after the last update.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from speed_launch import Counter
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel, get_inverse_sqrt_schedule

IGNORED = -100


def main() -> None:
    size = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    pad, bos, eos = size["pad"], size["bos"], size["eos"]
    torch.manual_seed(int(sys.argv[4]) if sys.argv[4:] else 1)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=size["vocabulary"], d_model=size["width"],
            encoder_layers=size["layers"], decoder_layers=size["layers"],
            encoder_attention_heads=size["heads"], decoder_attention_heads=size["heads"],
            encoder_ffn_dim=size["feed_forward"], decoder_ffn_dim=size["feed_forward"],
            dropout=0.1, attention_dropout=0.0, activation_dropout=0.0, activation_function="relu",
            scale_embedding=True, share_encoder_decoder_embeddings=True, tie_word_embeddings=True, use_cache=False,
            pad_token_id=pad, eos_token_id=eos, forced_eos_token_id=eos, decoder_start_token_id=bos,
        )
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)
    schedule = get_inverse_sqrt_schedule(optimizer, num_warmup_steps=600)
    print(f"{sum(parameter.numel() for parameter in model.parameters())} parameters")

    def padded(rows: list[list[int]], value: int) -> torch.Tensor:
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)

    def read(path: str) -> list[tuple[torch.Tensor, ...]]:
        batches = []
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            sources, targets = zip(*json.loads(line), strict=True)
            source = padded([[*row, eos] for row in sources], pad)
            target = padded([[*row, eos] for row in targets], IGNORED)
            batches.append((source, padded([[bos, *row] for row in targets], pad), target))
        return batches

    def entropy(batch: tuple[torch.Tensor, ...], **options: Any) -> torch.Tensor:
        source, target_in, target_out = batch
        output = model(input_ids=source, attention_mask=source.ne(pad).long(), decoder_input_ids=target_in)
        return cross_entropy(output.logits.flatten(0, 1), target_out.flatten(), ignore_index=IGNORED, **options)

    batches = read(sys.argv[2])
    counter = Counter()
    for batch in batches:
        loss = entropy(batch, label_smoothing=0.1)
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        loss.item()
        counter.add(int(batch[2].ne(IGNORED).sum()))
    if sys.argv[3:]:
        model.eval()
        dev = read(sys.argv[3])
        with torch.inference_mode():
            total = sum(entropy(batch, reduction="sum").item() for batch in dev)
        print(f"dev perplexity {math.exp(total / sum(int(batch[2].ne(IGNORED).sum()) for batch in dev)):.4f}")


if __name__ == "__main__":
    main()
