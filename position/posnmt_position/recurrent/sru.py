"""The simple recurrent unit (SRU), whose loop over the words is element-wise.

Shapes: B rows, T tokens, i input width, d output width, n matrices in one product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from posnmt_position.linear import Linear


class SimpleRecurrentUnit(nn.Module):
    """SRU (Lei et al. 2018, "Simple Recurrent Units for Highly Parallelizable Recurrence", eq. 1-4).

        f_t = sigmoid(W_f x_t + v_f * c_{t-1} + b_f)
        c_t = f_t * c_{t-1} + (1 - f_t) * (W x_t)
        r_t = sigmoid(W_r x_t + v_r * c_{t-1} + b_r)
        h_t = r_t * c_t + (1 - r_t) * x_t

    The paper multiplies x_t by a constant `alpha = sqrt(1 + 2 exp(b))`, b the initial value of b_r, so that variances
    agree at the start of training (its section on initialization); eq. 4, and this implementation, omit it.

    The matrix products are computed at once for all tokens; the loop over time is element-wise. If input and output
    widths differ, the highway term is `W_x x_t`; without `highway` there is none, and `h_t = r_t * c_t`. Each of two
    directions, half as wide as its input, therefore has a W_x; the authors' package has none there, and passes one half
    of the input to each direction.
    """

    def __init__(self, width_in: int, width: int, highway: bool = True) -> None:
        super().__init__()
        self.highway = highway
        self.parts = 4 if highway and width_in != width else 3
        self.project = Linear(width_in, self.parts * width, bias=False)
        self.peephole = nn.Parameter(torch.empty(2, width))  # v_f and v_r
        self.bias = nn.Parameter(torch.zeros(2, width))
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.uniform_(self.peephole, -(width**-0.5), width**-0.5)

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor]:
        """[B,T,i] -> [B,T,d], in the type of the products, and the last c [1,B,d], as PyTorch's networks return it."""
        parts = self.project(x).unflatten(-1, (self.parts, -1))
        around = None  # the highway term
        if self.highway:
            around = parts[:, :, 3] if self.parts == 4 else x.to(parts.dtype)
        before = self.bias.new_zeros(len(x), self.bias.shape[1]) if carry is None else carry[0]
        states, last = _Loop.apply(parts[:, :, :3], around, self.peephole, self.bias, before)
        return states, last[None]


class _Loop(torch.autograd.Function):
    """The loop over the words, forward and backward; the values of a word stay in a CPU's cache between operations.

    c and the gates are float32 or wider, since sums over many words lose precision in bfloat16.
    """

    @staticmethod
    def forward(
        ctx: Any, parts: Tensor, around: Tensor | None, peephole: Tensor, bias: Tensor, before: Tensor
    ) -> tuple[Tensor, Tensor]:
        rows, words, _, width = parts.shape
        memories = before.new_empty(words + 1, rows, width)
        memories[0] = before
        gates = before.new_empty(words, 2, rows, width)  # f and r
        states, buffer = parts.new_empty(rows, words, width), torch.empty_like(before)
        for t in range(words):
            c, after, (forget, reset) = memories[t], memories[t + 1], gates[t]
            gates[t].copy_(parts[:, t, 1:].transpose(0, 1)).add_(bias[:, None])
            gates[t].addcmul_(peephole[:, None], c).sigmoid_()
            torch.lerp(buffer.copy_(parts[:, t, 0]), c, forget, out=after)
            if around is None:
                torch.mul(reset, after, out=buffer)
            else:
                torch.lerp(buffer.copy_(around[:, t]), after, reset, out=buffer)
            states[:, t] = buffer
        ctx.save_for_backward(parts, around, peephole, memories, gates)
        return states, memories[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        parts, around, peephole, memories, gates = ctx.saved_tensors
        d_states, d_c = grads[0], grads[1].clone()
        d_parts, d_around = torch.empty_like(parts), None if around is None else torch.empty_like(around)
        d_peephole, d_bias = (torch.zeros_like(peephole) for _ in range(2))
        d_h, buffer, other = (torch.empty_like(d_c) for _ in range(3))
        inner = gates.new_empty(gates.shape[1:])  # of what the gates' sigmoids read
        d_forget, d_reset = inner
        for t in reversed(range(len(gates))):
            c, after, (forget, reset) = memories[t], memories[t + 1], gates[t]
            d_h.copy_(d_states[:, t])
            if around is None or d_around is None:
                torch.mul(d_h, after, out=buffer)
            else:  # h = x + r (c - x)
                d_around[:, t] = torch.addcmul(d_h, d_h, reset, value=-1, out=buffer)
                torch.sub(after, buffer.copy_(around[:, t]), out=other)
                torch.mul(d_h, other, out=buffer)
            torch.ops.aten.sigmoid_backward(buffer, reset, grad_input=d_reset)
            d_c.addcmul_(d_h, reset)
            d_parts[:, t, 0] = torch.addcmul(d_c, d_c, forget, value=-1, out=buffer)
            torch.sub(c, buffer.copy_(parts[:, t, 0]), out=other)  # c_t = new + f (c_{t-1} - new)
            torch.ops.aten.sigmoid_backward(other.mul_(d_c), forget, grad_input=d_forget)
            d_parts[:, t, 1:] = inner.transpose(0, 1)
            d_bias += inner.sum(1)
            d_c.mul_(forget).addcmul_(d_forget, peephole[0]).addcmul_(d_reset, peephole[1])
            d_peephole += inner.mul_(c).sum(1)
        return d_parts, d_around, d_peephole, d_bias, d_c
