"""Attention, a linear layer and layer normalisation as plain loops."""

from __future__ import annotations

import math

import torch


def linear(x, module):
    return x @ module.weight.T + module.bias


def normalised(x, norm):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias


def attention_by_loops(x, memory, q_weight, k_weight, v_weight, output, heads, causal):
    """Vaswani et al. 2017, section 3.2, one sentence: x [T,d], memory [J,d]; weights are (matrix, bias)."""
    q, k, v = (y @ w.T + b for y, (w, b) in ((x, q_weight), (memory, k_weight), (memory, v_weight)))
    width = q.shape[1] // heads
    parts = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        logits = q[:, part] @ k[:, part].T / math.sqrt(width)
        if causal:
            for i in range(len(x)):
                logits[i, i + 1 :] = -torch.inf
        parts.append(logits.softmax(-1) @ v[:, part])
    return linear(torch.cat(parts, -1), output)
