"""Biases on the attention logits that depend on the distance between query and key: ALiBi, T5, KERPLE, Sandwich.

Each is one view for all layers of a stack. The bias is computed once for the offsets that occur and spread along the
diagonals; the layers share the result.

Shapes: B rows, Tq queries, Tk keys, H heads, W = Tq + Tk - 1 offsets (key position minus query position).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt_position.absolute import sinusoids
from posnmt_position.directional import DirectionalHeads
from posnmt_position.options import Options, option
from posnmt_position.seam import LayerPosition, Scheme, Span, Stack, nearest


class DistanceBias(LayerPosition):
    """A bias that is a function of the offset j - i for each head."""

    reads_keys = False

    def of_offsets(self, offsets: Tensor) -> Tensor:
        """[H,W] from the offsets [W], integers; real numbers in attention to the source."""
        raise NotImplementedError

    def by_offset(self, span: Span) -> Tensor:
        """Compute the bias [H,W] at each offset of `span.diagonals`."""
        return self.of_offsets(span.diagonals)


class OneSidedHeads(DirectionalHeads):
    """A bias with one-sided heads: the first half sees the keys j <= i, the second half j >= i."""

    reads_keys = False

    def __init__(self, bias: DistanceBias, heads: int) -> None:
        super().__init__(heads)
        self.bias = bias

    def by_offset(self, span: Span) -> Tensor:
        """Return the table [H,W] of the bias alone; the masks come from `allows`."""
        return self.bias.by_offset(span)


class EncoderForm(Options):
    """The option of all biases on the unsigned distance |i - j|."""

    encoder: Literal["symmetric", "asymmetric"] = option(
        "symmetric",
        help="asymmetric: in an encoder, half of the heads see keys to the left of the query, half to the right",
    )


class BareDistance(Scheme):
    """A scheme whose bias depends on |i - j|, designed for causal attention.

    An encoder has two forms of it, the first two that the author of ALiBi describes (issue 5 of his repository,
    ofirpress/attention_with_linear_biases): `symmetric`, the bias unchanged, with which
    the encoder cannot distinguish a sentence from its mirror image; and `asymmetric`, in which one half of the heads
    sees the keys j <= i and the other half j >= i, with the same constants. In a causal stack both are the same.
    """

    not_cross = None

    def __init__(self, stack: Stack, settings: EncoderForm) -> None:
        super().__init__()
        one_sided = settings.encoder == "asymmetric" and not stack.causal
        bias = self.build_bias(stack.heads, 2 if one_sided else 1, settings)
        self.view = OneSidedHeads(bias, stack.heads) if one_sided else bias

    def build_bias(self, heads: int, groups: int, settings: Any) -> DistanceBias:
        """The bias of all heads, in groups of heads that have the same constants."""
        raise NotImplementedError

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd number of heads in an asymmetric encoder, and one-sided heads in attention to the source."""
        if settings.encoder == "asymmetric" and stack.cross:
            return [
                "hides keys on one side of each query, and a translation may go on past the end of its source;"
                " leave encoder: asymmetric out"
            ]
        if settings.encoder == "asymmetric" and not stack.causal and stack.heads % 2:
            return [
                f"needs an even number of heads for an asymmetric encoder, half for each side; {stack.heads} is odd"
            ]
        return []

    def clip(self, reach: int, group: int | None = None) -> bool:
        """Let the bias be constant beyond `reach`. A bias has no groups: with `group`, nothing changes (False)."""
        if group is not None:
            return False
        self.view.reach = reach
        return True

    def layer(self, index: int) -> LayerPosition:
        """The bias, the same in every layer."""
        return self.view


def slopes(heads: int) -> list[float]:
    """ALiBi's slope of each head, as in its published code (`get_slopes`).

    For a power of two, the geometric sequence that starts at 2^(-8/H) with the same ratio; otherwise the slopes of the
    next smaller power of two, then every other slope of twice that power.
    """
    exponent = math.floor(math.log2(heads))
    power = 2**exponent
    first = 2 ** (-(2 ** -(exponent - 3)))
    sequence = [first * first**index for index in range(power)]
    return sequence if power == heads else sequence + slopes(2 * power)[0::2][: heads - power]


class LinearBias(DistanceBias):
    """`-m_h |i - j|` with the fixed slopes m [H]."""

    slopes: Tensor

    def __init__(self, heads: int, groups: int) -> None:
        super().__init__()
        values = torch.tensor(slopes(heads // groups) * groups, dtype=torch.float64)
        self.register_buffer("slopes", values, persistent=False)

    def of_offsets(self, offsets: Tensor) -> Tensor:
        """Multiply the unsigned offsets [W] by minus the slope of each head: [H,W]."""
        return -self.slopes[:, None] * offsets.abs()


class Alibi(BareDistance):
    """`e_ij = q_i k_j - m_h |i - j|`, m_h a fixed slope of each head (Press et al. 2022, section 3); no parameters."""

    class Settings(EncoderForm):
        """Take the option of every bias on the unsigned distance; `alibi` adds none."""

    def build_bias(self, heads: int, groups: int, settings: Any) -> DistanceBias:
        """Build the bias that is linear in the distance, with fixed slopes."""
        return LinearBias(heads, groups)


class KernelBias(DistanceBias):
    """A kernel of |i - j| with two trained positive numbers r1, r2 a head (Chi et al. 2022: ParallelKerpleLog, -Power).

    `log`: `-r1 log(1 + r2 |i - j|)`, r1, r2 > 0. `power`: `-r1 |i - j|^r2`, r1 > 0, 0 < r2 <= 2.

    The published code clamps r1 and r2 at 0.01; here they are the softplus of the trained parameters, and twice the
    sigmoid for the bounded r2, so that gradients do not vanish at the bound. The initial values are as published:
    uniform, r1 below 2 and r2 below 1 for `log`, the reverse for `power`.
    """

    def __init__(self, heads: int, form: Literal["log", "power"]) -> None:
        super().__init__()
        self.form = form
        first, second = (torch.rand(heads).clamp(0.01, 0.99) for _ in range(2))
        r1 = 2 * first if form == "log" else first
        self.r1_trained = nn.Parameter(r1.expm1().log())  # softplus(log(e^r - 1)) = r
        self.r2_trained = nn.Parameter(second.expm1().log() if form == "log" else second.logit())

    def of_offsets(self, offsets: Tensor) -> Tensor:
        """Compute minus the kernel of the unsigned offsets [W]: [H,W], 0 or less."""
        distances = offsets.abs().to(self.r1_trained.dtype)
        r1 = functional.softplus(self.r1_trained)[:, None]
        if self.form == "log":
            return -r1 * torch.log1p(functional.softplus(self.r2_trained)[:, None] * distances)
        return -r1 * distances.pow(2 * self.r2_trained.sigmoid()[:, None])


class Kerple(BareDistance):
    """`e_ij = q_i k_j` minus a kernel of |i - j| with trained positive numbers for each head (Chi et al. 2022).

    The layers of the stack share them, as published. In an asymmetric encoder every head still has its own.
    """

    class Settings(EncoderForm):
        """Choose the kernel of `kerple`: a logarithm of the distance, or a power."""

        form: Literal["log", "power"] = option("log", help="log: -r1 log(1 + r2 |i-j|); power: -r1 |i-j|^r2")

    def build_bias(self, heads: int, groups: int, settings: Any) -> DistanceBias:
        """A logarithm or a power of the distance."""
        return KernelBias(heads, settings.form)


class SinusoidBias(DistanceBias):
    """`(p_i . p_j - w/2) / (h 8/H)`, h = 1 .. H, with the sinusoids p of width w of the two positions.

    `p_i . p_j = sum_{n < w/2} cos((i - j) / 10000^(2n/w))`, which is w/2 at distance 0 and decays about as a logarithm.
    """

    divisors: Tensor

    def __init__(self, heads: int, groups: int, width: int) -> None:
        super().__init__()
        self.width = width
        count = heads // groups
        divisors = (torch.arange(count, dtype=torch.float64) + 1) * 8 / count
        self.register_buffer("divisors", divisors.repeat(groups), persistent=False)

    def of_offsets(self, offsets: Tensor) -> Tensor:
        """Sum the cosines at the offsets [W], subtract the sum at 0, and divide by the number of each head: [H,W]."""
        products = sinusoids(offsets, self.width)[:, 1::2].sum(-1)
        return (products - self.width / 2) / self.divisors[:, None]


class Sandwich(BareDistance):
    """The inner products of sinusoids as a bias, divided by a constant for each head (Chi et al. 2023, section 5).

    No parameters. Unlike ALiBi's line, the curve is steep near the query and nearly flat far from it.
    """

    class Settings(EncoderForm):
        """Set the width of the sinusoids whose inner products are the bias of `sandwich`."""

        width: int = option(128, ge=2, multiple_of=2, help="width of the sinusoids, an even number")

    def build_bias(self, heads: int, groups: int, settings: Any) -> DistanceBias:
        """Build the bias from inner products of sinusoids, which has no parameters."""
        return SinusoidBias(heads, groups, settings.width)


def bucket(offset: int, buckets: int, distance: int, causal: bool) -> int:
    """T5's bucket of an offset j - i (Raffel et al. 2020, section 2.1; `_relative_position_bucket` of its code).

    An encoder has half of the buckets for each direction. Of the n buckets of a direction, the first n/2 hold one
    distance each, the others grow logarithmically up to `distance`, and the last also holds all larger distances.
    """
    if causal:
        first, count, length = 0, buckets, max(-offset, 0)
    else:
        first, count, length = buckets // 2 * (offset > 0), buckets // 2, abs(offset)
    exact = count // 2
    if length < exact:
        return first + length
    share = math.log(length / exact) / math.log(distance / exact)
    return first + min(exact + int(share * (count - exact)), count - 1)


class BucketBias(DistanceBias):
    """A trained number for each bucket of the offset and each head, in a table [buckets,H]."""

    buckets: Tensor

    def __init__(self, stack: Stack, buckets: int, distance: int) -> None:
        super().__init__()
        self.distance = distance
        self.table = nn.Parameter(torch.empty(buckets, stack.heads))
        nn.init.normal_(self.table, std=stack.d_model**-0.5)
        indices = [bucket(offset, buckets, distance, stack.causal) for offset in range(-distance, distance + 1)]
        self.register_buffer("buckets", torch.tensor(indices), persistent=False)

    def of_offsets(self, offsets: Tensor) -> Tensor:
        """[H,W]; of real offsets, the nearest whole ones count."""
        indices = self.buckets[nearest(offsets).clamp(-self.distance, self.distance) + self.distance]
        return functional.embedding(indices, self.table).transpose(0, 1)


class T5Bias(Scheme):
    """`e_ij = q_i k_j + b_h(j - i)`, a trained number for each head and bucket of offsets (Raffel et al. 2020).

    One table for all layers of the stack. T5 leaves queries unscaled; here they are scaled, as everywhere.
    """

    not_cross = None

    class Settings(Options):
        """Set how many buckets `t5-bias` has, and where the last of a direction begins."""

        buckets: int = option(32, ge=2, help="buckets of offsets; in an encoder half for each direction")
        distance: int = option(128, ge=2, help="offsets from here on share one bucket a direction")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.view = BucketBias(stack, settings.buckets, settings.distance)

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """Too few buckets: each direction needs exact and logarithmic buckets."""
        if not stack.causal and (settings.buckets % 2 or settings.buckets < 4):
            return [f"needs an even number of buckets in the encoder, at least 4; got {settings.buckets}"]
        exact = settings.buckets // (2 if stack.causal else 4)
        if settings.distance <= exact:
            return [
                f"needs a distance above {exact}, the number of offsets with a bucket of their own; "
                f"got {settings.distance}"
            ]
        return []

    def clip(self, reach: int, group: int | None = None) -> bool:
        """Let the bias be constant beyond `reach`. A bias has no groups: with `group`, nothing changes (False)."""
        if group is not None:
            return False
        self.view.reach = reach
        return True

    def layer(self, index: int) -> LayerPosition:
        """The bias, the same in every layer."""
        return self.view
