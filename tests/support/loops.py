"""What equations written as plain loops share: the parts of networks, and how posnmt's are compared with them.

Legend: T tokens, J source tokens, d model width, D width of a head, B sentences.
"""

from __future__ import annotations

import math

import torch

from posnmt.data.subword import BOS, BREAK, EOS, PAD, UNK
from posnmt.training.loss import TrainingLoss
from tests.support.tiny import tokens


def same_with_gradients(got, want, inputs, tolerance=1e-11):
    """One function: the values to 1e-12, and the gradients of a random sum of them with respect to the inputs."""
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    upstream = torch.randn_like(got)
    ours, theirs = (torch.autograd.grad(each, inputs, upstream, materialize_grads=True) for each in (got, want))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


def same_model(model, got, want):
    """As above, for a whole model's parameters up to its projection to the vocabulary."""
    weights = [weight for name, weight in model.named_parameters() if not name.startswith("output")]
    same_with_gradients(got, want, weights)


def same_last_token(model, source, lengths, target, want):
    """The last token, computed by itself, is the loops' [B,T,d]: two hypotheses a sentence, one of them dropped.

    Returns:
        The decoder's state behind it.
    """
    lengths = torch.tensor(lengths)
    state = model.start(model.encode(source, lengths), lengths)
    model.advance(target[:, :-1].repeat_interleave(2, 0), state)
    state.select(torch.tensor([0, 3, 4]))
    got = model.advance(target[:, -1:], state)
    torch.testing.assert_close(got, want[:, -1:], rtol=0, atol=1e-12)
    return state


def padded(lengths):
    """Source tokens [B,J] of sentences of these lengths."""
    source = tokens(len(lengths), max(lengths))
    for row, length in enumerate(lengths):
        source[row, length:] = 0
    return source


def learns_in_bf16(model):
    """A float32 model learns eight sentences by heart; losses are those of training."""
    loss_of, optimizer = TrainingLoss(model.train(), 0.0), torch.optim.Adam(model.parameters(), lr=1e-2)
    source, target = tokens(8, 5), tokens(8, 6, seed=1)
    likelihoods = []
    for _ in range(20):
        with torch.autocast("cpu", torch.bfloat16):
            loss, likelihood = loss_of(source, torch.full((8,), 5), target, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        likelihoods.append(likelihood.item())
    assert likelihoods[-1] < 0.6 * likelihoods[0]


def scaled(q):
    """Queries over the root of the width of a head, as `attend` takes them."""
    return q * q.shape[-1] ** -0.5


def linear(x, module):
    return x @ module.weight.T + module.bias


def normalised(x, norm):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias


def feed_forward(x, module):
    return linear(linear(x, module.fc1).clamp(min=0), module.fc2)


def softmax(scores):
    """A list of scores as weights that add up to 1."""
    total = sum(torch.exp(score) for score in scores)
    return [torch.exp(score) / total for score in scores]


def attended(scores, values):
    """The sum of values by the softmax of their scores."""
    return sum(weight * value for weight, value in zip(softmax(scores), values, strict=True))


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


def self_attention(x, attention, heads, causal):
    q, k, v = _blocks(attention.project, 3)
    return attention_by_loops(x, x, q, k, v, attention.output, heads, causal)


def cross_attention(y, x, attention, heads):
    q, (k, v) = (attention.query.weight, attention.query.bias), _blocks(attention.memory, 2)
    return attention_by_loops(y, x, q, k, v, attention.output, heads, causal=False)


def _blocks(module, count):
    """The equal parts of a linear layer, as (matrix, bias)."""
    return list(zip(module.weight.chunk(count), module.bias.chunk(count), strict=True))


@torch.inference_mode()
def greedy(models, source, limit, shortest=0, breaks=0, prefix=(), may_be_unknown=False):
    """The most probable subword again and again, each from a whole forward pass of every model.

    Args:
        source: subwords of one sentence, or of `breaks` + 1 sentences.
        limit: the most subwords.
        shortest: the fewest of a sentence; of several, one has at least one.
        prefix: with which it begins.
        may_be_unknown: whether `<unk>` may be written.
    """
    written, least = [BOS], max(1, shortest) if breaks else shortest
    while len(written) - 1 < limit:
        inputs = torch.tensor([[*source, EOS]]), None, torch.tensor([written])
        shares = sum(model.project(model(*inputs))[0, -1].softmax(-1) for model in models)
        begun, done = written[::-1].index(BREAK), written[1:].count(BREAK)  # the first symbol is one
        barred = {PAD: True, UNK: not may_be_unknown}
        barred |= {BREAK: begun < least or done == breaks, EOS: begun < least or done < breaks}
        shares[[token for token, is_barred in barred.items() if is_barred]] = -1
        best = int(shares.argmax()) if len(written) > len(prefix) else prefix[len(written) - 1]
        if best == EOS:
            break
        written.append(best)
    return written[1:]


def weights_of(cell, suffix=""):
    """The matrices and biases of a recurrent cell of PyTorch's, or of the part of a network that the suffix names."""
    return [getattr(cell, f"{kind}{suffix}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def _products(weights, x, h):
    """The products of each gate with input and state, as PyTorch stacks them, each with its bias vector."""
    w_ih, w_hh, b_ih, b_hh = weights
    return w_ih @ x + b_ih, w_hh @ h + b_hh


def gru(weights, x, h):
    """Cho et al. 2014 in PyTorch's form, where the reset gate falls on W h + b: reset, update, new."""
    (r, z, n), (own_r, own_z, own_n) = (each.chunk(3) for each in _products(weights, x, h))
    r, z = torch.sigmoid(r + own_r), torch.sigmoid(z + own_z)
    return (1 - z) * torch.tanh(n + r * own_n) + z * h


def lstm(weights, x, h, c):
    """Hochreiter and Schmidhuber 1997, with a forget gate; gates in PyTorch's order: input, forget, new, output."""
    i, f, g, o = sum(_products(weights, x, h)).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def elman(weights, x, h):
    return torch.tanh(sum(_products(weights, x, h)))
