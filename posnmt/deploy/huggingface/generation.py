"""What `generate` of Transformers needs of a posnmt model: a cache, and the limits of posnmt's search.

Shapes: B rows (in `generate`: sentences x beams), J source tokens, T target tokens, V vocabulary entries, d
width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor
from transformers.modeling_outputs import BaseModelOutput

from posnmt.data.subword import EOS, PAD
from posnmt.model.base import State, TranslationModel

ASSISTED = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "use_mtp")
"""Settings of `generate` that ask for assisted generation."""


class StateCache:
    """The state of the decoder between two steps of `generate`.

    Attributes:
        state: the decoder's state, with one sentence for each row.
        length: number of target tokens that the decoder has read.
    """

    is_compileable = False

    def __init__(self, state: State) -> None:
        self.state, self.length = state, 0

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The number of target tokens that the decoder has read."""
        return self.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep these rows [B], in this order. Rows move only within a sentence, so their source stays the same."""
        self.state.select(beam_idx)


class Encoder:
    """The encoder alone, as `generate` calls it.

    Args:
        model: the posnmt model.
    """

    main_input_name = "input_ids"

    def __init__(self, model: TranslationModel) -> None:
        self._model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        """Source tokens [B,J] with a mask [B,J] -> states [B,J,d]."""
        return BaseModelOutput(last_hidden_state=self._model.encode(input_ids, lengths(input_ids, attention_mask)))

    __call__ = forward


class OwnLimits(LogitsProcessor):
    """Enforces a shortest and a longest output for each sentence, as posnmt's search does.

    After an output that has reached the limit of its sentence, only `</s>` is allowed.

    Args:
        limits: the largest number of output subwords of each sentence.
        shortest: number of subwords before which `</s>` is not allowed; the limit, if that is less.
    """

    def __init__(self, limits: list[int], shortest: int = 0) -> None:
        self.limits, self.shortest = torch.tensor(limits), shortest

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The scores [B,V] after input_ids [B,T], which begin with `<s>`; forbidden subwords get -inf."""
        limits = self.limits.to(scores.device).repeat_interleave(len(scores) // len(self.limits))
        length = input_ids.shape[1] - 1
        is_end = torch.arange(scores.shape[1], device=scores.device) == EOS
        must_end, must_continue = limits <= length, limits.clamp(max=self.shortest) > length
        forbidden = (must_end[:, None] & ~is_end) | (must_continue[:, None] & is_end)
        return scores.masked_fill(forbidden, -torch.inf)


def lengths(input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
    """The number of real tokens [B] of each row, from a mask [B,J] or from tokens [B,J].

    Raises:
        ValueError: padding is not on the right.
    """
    if attention_mask is None:
        assert input_ids is not None
        attention_mask = input_ids != PAD
    real = attention_mask.bool()
    if (real[:, 1:] & ~real[:, :-1]).any():
        raise ValueError("posnmt's models need padding on the right; set tokenizer.padding_side to 'right'")
    return real.sum(1)


def has_length(options: dict[str, Any], config: GenerationConfig | None) -> bool:
    """Whether settings of `generate` limit the length of outputs."""
    return any(_given(name, options, config) for name in ("max_length", "max_new_tokens"))


def refuse_assisted(options: dict[str, Any], config: GenerationConfig | None) -> None:
    """Check that settings of `generate` ask for no assisted generation.

    It takes tokens back that the decoder has read, and the state of a recurrence cannot go back.

    Raises:
        ValueError: they do.
    """
    for name in ASSISTED:
        if _given(name, options, config):
            raise ValueError(
                f"posnmt's models cannot generate with {name}: assisted generation takes tokens back that the decoder "
                "has read; leave it out"
            )


def _given(name: str, options: dict[str, Any], config: GenerationConfig | None) -> bool:
    """Whether a setting has a value, among the options or in a configuration."""
    values = (options.get(name), getattr(config, name, None))
    return any(value is not None and value is not False for value in values)
