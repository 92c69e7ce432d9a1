"""How a part is compared with the plain loops that were written from its paper."""

from __future__ import annotations

import torch


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


def scaled(q):
    """Queries over the root of the width of a head, as `attend` takes them."""
    return q * q.shape[-1] ** -0.5
