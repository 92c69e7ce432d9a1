"""A posnmt model with the interface of Transformers: `forward`, `generate`, `from_pretrained`, `save_pretrained`.

The cache is the decoder's `State` of posnmt, whatever position schemes and architectures keep in it. Beam search works
for all of them, because a state is reordered by one operation, `select`.

Shapes: B rows (in `generate`: sentences x beams), J source tokens, T target tokens, V vocabulary entries, d width.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, GenerationMixin, LogitsProcessor, LogitsProcessorList, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import cached_file

from posnmt.config.schema import Decode, Model
from posnmt.data.subword import BOS, EOS, PAD
from posnmt.deploy.huggingface.config import PosnmtConfig
from posnmt.model.base import State
from posnmt.model.registry import build_undrawn
from posnmt.model.weights import stored
from posnmt.translate.subwords import output_limit

WEIGHTS = "model.safetensors"

_HUB = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")
"""Arguments of `from_pretrained` that locate files."""

_IGNORED = ("trust_remote_code", "code_revision", "adapter_kwargs", "use_safetensors", "weights_only")
"""Arguments of `from_pretrained` without effect here: the code is installed, and weights are always safetensors."""

_CACHE = "cache" if "cache" in {field.name for field in fields(Seq2SeqLMOutput)} else "past_key_values"
"""The name of the cache in the output of `forward`; before Transformers 5.24 it was `past_key_values`."""

_OTHER_VERSION = f"use another version of Transformers than {transformers.__version__}"


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
    """The encoder alone, as `generate` calls it."""

    main_input_name = "input_ids"

    def __init__(self, model: PosnmtForConditionalGeneration) -> None:
        self._model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        """Source tokens [B,J] with a mask [B,J] -> states [B,J,d]."""
        return BaseModelOutput(
            last_hidden_state=self._model.model.encode(input_ids, lengths(input_ids, attention_mask))
        )

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


class PosnmtForConditionalGeneration(PreTrainedModel, GenerationMixin):
    """Any posnmt model: from source and target tokens to the logits of the next target token."""

    config_class = PosnmtConfig
    base_model_prefix = "posnmt"
    main_input_name = "input_ids"

    def __init__(self, config: PosnmtConfig) -> None:
        super().__init__(config)
        settings = Model.model_validate(config.posnmt)
        self.model = build_undrawn(settings, config.source_vocab_size, config.vocab_size)
        self._tied_weights_keys = _shared_names(self)
        self.post_init()

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls,
        pretrained_model_name_or_path: str | Path,
        *arguments: Any,
        config: PosnmtConfig | None = None,
        **options: Any,
    ) -> PosnmtForConditionalGeneration:
        """Load the model in a folder, or with a name on the hub.

        Transformers' own loader is not used. It builds a model without memory, which leaves constants of position
        schemes empty.

        Args:
            pretrained_model_name_or_path: the folder or the name.
            arguments: not allowed.
            config: a configuration in place of the folder's.
            options: `dtype`, a dtype of PyTorch or its name (`auto`: single precision, as exported), `device_map` with
                one device, and options of the hub.

        Raises:
            ValueError: weights are missing or of another model, or no dtype has the name.
            TypeError: an option is unknown, or `dtype` is neither a dtype nor a name.
        """
        place = str(pretrained_model_name_or_path)
        hub = {key: options.pop(key) for key in _HUB if key in options}
        dtype = _dtype(options.pop("dtype", options.pop("torch_dtype", None)))
        device = options.pop("device_map", None)
        unknown = [key for key in options if key not in _IGNORED and not key.startswith("_")]
        if unknown or arguments:
            raise TypeError(f"posnmt's from_pretrained does not know {', '.join(unknown) or arguments}")
        model = cls(config or PosnmtConfig.from_pretrained(place, **hub))
        path = cached_file(place, WEIGHTS, **hub)
        places = {**stored(model), **dict(model.named_parameters(remove_duplicate=False))}
        tensors = load_file(path)
        loaded = {id(places[name]) for name in tensors if name in places}
        faults = [f"{name} is missing" for name, place in places.items() if id(place) not in loaded]
        faults += [f"{name} is not in this model" for name in tensors if name not in places]
        if faults:
            raise ValueError(f"{path} has the weights of another model: {'; '.join(faults[:3])}")
        model.load_state_dict(tensors, strict=False)
        model.generation_config = GenerationConfig.from_pretrained(place, **hub)
        if dtype is not None:
            model = model.to(dtype)
        return (model if device is None else model.to(device)).eval()

    def get_encoder(self, *_: Any, **__: Any) -> Encoder:
        """The encoder alone."""
        return Encoder(self)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # `forward` makes the cache

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: StateCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        cache: StateCache | None = None,
        **others: Any,
    ) -> Seq2SeqLMOutput:
        """Logits [B,T,V] of the tokens that follow `decoder_input_ids`.

        Args:
            input_ids: [B,J] source tokens with `</s>`, padded on the right.
            attention_mask: [B,J] 1 at real tokens; default: all tokens except `<pad>` are real.
            decoder_input_ids: [B,T] target tokens that begin with `<s>`; with a cache, those after the cached ones.
            encoder_outputs: the output of `get_encoder()`, in place of `input_ids`.
            past_key_values, cache: the cache that an earlier call returned. Transformers uses the second name since
                5.24.
            labels: [B,T] target tokens with `</s>`, padded with -100; in place of `decoder_input_ids`.
            use_cache: whether to return a cache.
            others: ignored.

        Raises:
            ValueError: there is no source or no target, a target without a cache does not begin with `<s>`, or padding
                is not on the right.
            TypeError: a cache has another name.
        """
        unknown = [name for name, value in others.items() if isinstance(value, StateCache)]
        if unknown:
            raise TypeError(f"posnmt's models do not know a cache with the name {unknown[0]}; {_OTHER_VERSION}")
        if cache is None:
            cache = past_key_values
        if labels is not None and decoder_input_ids is None:
            decoder_input_ids = functional.pad(
                labels[:, :-1].masked_fill(labels[:, :-1] == -100, PAD), (1, 0), value=BOS
            )
        if decoder_input_ids is None:
            raise ValueError("give decoder_input_ids or labels")
        if cache is None:
            if (decoder_input_ids[:, :1] != BOS).any():
                raise ValueError(
                    f"a target begins with <s> or with a cache; if `generate` lost the cache, {_OTHER_VERSION}"
                )
            if encoder_outputs is None:
                if input_ids is None:
                    raise ValueError("give input_ids or encoder_outputs")
                encoder_outputs = self.get_encoder()(input_ids, attention_mask)
            encoded = encoder_outputs[0]
            real = None if input_ids is None and attention_mask is None else lengths(input_ids, attention_mask)
            cache = StateCache(self.model.start(encoded, real))
        hidden = self.model.advance(decoder_input_ids, cache.state)
        cache.length += decoder_input_ids.shape[1]
        logits = self.model.project(hidden)
        loss = None if labels is None else functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            encoder_last_hidden_state=None if encoder_outputs is None else encoder_outputs[0],
            **({_CACHE: cache} if use_cache else {}),
        )

    @torch.no_grad()
    def generate(  # type: ignore[override]
        self,
        inputs: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        logits_processor: LogitsProcessorList | None = None,
        **options: Any,
    ) -> Any:
        """Transformers' `generate`, with posnmt's limits for the length of each output.

        The limits are not used if `max_length` or `max_new_tokens` is among the options or in `generation_config`. The
        output of an empty source is always empty.

        Args:
            inputs: source tokens, in place of `input_ids`.
            generation_config, logits_processor: see Transformers.
            options: `input_ids` and `attention_mask` from the tokenizer, and settings of `GenerationConfig`.
        """
        ids = inputs if inputs is not None else options.get("input_ids")
        sized = _has_length(options) or (generation_config is not None and _has_length(vars(generation_config)))
        if ids is not None:
            decode = Decode(max_ratio=self.config.max_ratio, max_extra=self.config.max_extra)
            limits = [
                0 if source < 1 else sys.maxsize if sized else output_limit(decode, source, self.model.longest_target)
                for source in (lengths(ids, options.get("attention_mask")) - 1).tolist()  # without </s>
            ]
            own = OwnLimits(limits, 0 if sized else self.config.min_output)
            logits_processor = LogitsProcessorList([*(logits_processor or []), own])
            if not sized:
                longest = {"max_new_tokens": max(limits) + 1}
                if generation_config is None:
                    options |= longest
                else:  # Transformers warns if there are options as well as a configuration
                    generation_config = copy.deepcopy(generation_config)
                    generation_config.update(**longest)
        return super().generate(inputs, generation_config, logits_processor=logits_processor, **options)


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


def _has_length(settings: dict[str, Any]) -> bool:
    """Whether settings of `generate` limit the length of outputs."""
    return any(settings.get(name) is not None for name in ("max_length", "max_new_tokens"))


def _dtype(given: Any) -> torch.dtype | None:
    """The dtype of an argument of `from_pretrained`; None: the dtype of the weights.

    Raises:
        ValueError: no dtype has the name.
        TypeError: the argument is neither a dtype nor a name.
    """
    if given is None or given == "auto":
        return None
    dtype = getattr(torch, given, None) if isinstance(given, str) else given
    if isinstance(dtype, torch.dtype):
        return dtype
    if isinstance(given, str):
        raise ValueError(f"PyTorch has no dtype {given!r}; bfloat16 is one")
    raise TypeError(f"dtype must be a dtype of PyTorch, or its name, such as bfloat16, not {given!r}")


def _shared_names(module: torch.nn.Module) -> dict[str, str]:
    """Each further name of a shared parameter -> its first name."""
    first: dict[int, str] = {}
    shared = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            shared[name] = first[id(parameter)]
    return shared
