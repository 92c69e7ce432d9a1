"""A posnmt model with the interface of Transformers: `forward`, `generate`, `from_pretrained`, `save_pretrained`.

The cache is the decoder's `State` of posnmt, whatever position schemes and architectures keep in it. Beam search works
for all of them, because a state is reordered by one operation, `select`.

Shapes: B rows (in `generate`: sentences x beams), J source tokens, T target tokens, V vocabulary entries, d width.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import GenerationConfig, GenerationMixin, LogitsProcessorList, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import cached_file

from posnmt.config.schema import Decode, Model
from posnmt.data.subword import BOS, PAD
from posnmt.deploy.huggingface.config import PosnmtConfig
from posnmt.deploy.huggingface.embeddings import refuse_resizing, replace_input, table
from posnmt.deploy.huggingface.generation import Encoder, OwnLimits, StateCache, has_length, lengths, refuse_assisted
from posnmt.deploy.huggingface.layers import hold, layers, recompute
from posnmt.deploy.huggingface.loading import HUB, IGNORED, WEIGHTS, dtype_of, load_weights, shared_names
from posnmt.deploy.huggingface.pipeline import PosnmtTranslationPipeline
from posnmt.model.registry import build_undrawn
from posnmt.translate.bounds import output_limit

__all__ = ["PosnmtForConditionalGeneration", "PosnmtTranslationPipeline"]

_CACHE = "cache" if "cache" in {field.name for field in fields(Seq2SeqLMOutput)} else "past_key_values"
"""The name of the cache in the output of `forward`; before Transformers 5.24 it was `past_key_values`."""

_OTHER_VERSION = f"use another version of Transformers than {transformers.__version__}"


class PosnmtForConditionalGeneration(PreTrainedModel, GenerationMixin):
    """Any posnmt model: from source and target tokens to the logits of the next target token."""

    config_class = PosnmtConfig
    base_model_prefix = "posnmt"
    main_input_name = "input_ids"

    def __init__(self, config: PosnmtConfig) -> None:
        super().__init__(config)
        settings = Model.model_validate(config.posnmt)
        self.model = build_undrawn(settings, config.source_vocab_size, config.vocab_size)
        hold(self.model)
        self._tied_weights_keys = shared_names(self)
        self.supports_gradient_checkpointing = len(layers(self.model)) > 0
        self.gradient_checkpointing = False
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
        hub = {key: options.pop(key) for key in HUB if key in options}
        dtype = dtype_of(options.pop("dtype", options.pop("torch_dtype", None)))
        device = options.pop("device_map", None)
        unknown = [key for key in options if key not in IGNORED and not key.startswith("_")]
        if unknown or arguments:
            raise TypeError(f"posnmt's from_pretrained does not know {', '.join(unknown) or arguments}")
        model = cls(config or PosnmtConfig.from_pretrained(place, **hub))
        load_weights(model, Path(cached_file(place, WEIGHTS, **hub)))
        model.generation_config = GenerationConfig.from_pretrained(place, **hub)
        if dtype is not None:
            model = model.to(dtype)
        return (model if device is None else model.to(device)).eval()

    def save_pretrained(self, save_directory: str | Path, *arguments: Any, **options: Any) -> None:
        """Write configuration, weights and code into a folder, from which `from_pretrained` loads the model.

        Args:
            save_directory: the folder, which is created if necessary.
            arguments, options: see Transformers.
        """
        if self._auto_class is None and options.get("is_main_process", True):
            from posnmt.deploy.huggingface.code import carry

            Path(save_directory).mkdir(parents=True, exist_ok=True)
            carry(self.config, Path(save_directory))
        super().save_pretrained(save_directory, *arguments, **options)

    def get_encoder(self, *_: Any, **__: Any) -> Encoder:
        """Return a module that encodes sources, which `generate` calls once before the search."""
        return Encoder(self.model)

    def get_input_embeddings(self) -> nn.Module:
        """The word embedding of the source, with V entries of width d."""
        embedding: nn.Module = table(self.model, "source")
        return embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embedding of the source, and what is tied to it."""
        replace_input(self.model, value)

    def get_output_embeddings(self) -> nn.Linear:
        """The projection [d] -> [V] to the target vocabulary."""
        return self.model.output

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the projection to the target vocabulary."""
        self.model.output = new_embeddings

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Module:
        """Give both sides vocabularies of another size; matrices that are tied stay tied.

        Args:
            new_num_tokens: entries of each vocabulary, such as `len(tokenizer)`; None: as many as now.
            pad_to_multiple_of, mean_resizing: see Transformers.

        Returns:
            The word embedding of the source.

        Raises:
            ValueError: the sides have vocabularies of different sizes, or their embeddings cannot be resized.
        """
        source, target, output = table(self.model, "source"), table(self.model, "target"), self.model.output
        if new_num_tokens is None and pad_to_multiple_of is None:
            return self.get_input_embeddings()
        refuse_resizing(self.model)
        tied = output.weight is target.weight
        for embedding in dict.fromkeys([source, target]):
            self._get_resized_embeddings(embedding, new_num_tokens, pad_to_multiple_of, mean_resizing)  # in place
        if tied:
            self._adjust_bias(output, target)
        else:
            self.model.output = self._get_resized_lm_head(output, target.num_embeddings, mean_resizing=mean_resizing)
        self.config.source_vocab_size, self.config.vocab_size = source.num_embeddings, target.num_embeddings
        return self.get_input_embeddings()

    def _set_gradient_checkpointing(
        self, enable: bool = True, gradient_checkpointing_func: Callable[..., Any] = checkpoint, every_n_layers: int = 1
    ) -> None:
        """Called by Transformers' `activation_checkpointing_enable` and `gradient_checkpointing_enable`."""
        recompute(self.model, gradient_checkpointing_func if enable else None, every_n_layers)
        self.gradient_checkpointing = enable

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The target tokens [B,T] before each label [B,T]: `<s>`, then the labels but the last."""
        return functional.pad(labels[:, :-1].masked_fill(labels[:, :-1] == -100, PAD), (1, 0), value=BOS)

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
        num_items_in_batch: Tensor | int | None = None,
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
            num_items_in_batch: what the sum of the labels' losses is divided by; default: the number of labels. It is
                that of all batches whose gradients Transformers' `Trainer` adds up.
            others: ignored.

        Raises:
            ValueError: there is no source or no target, a target without a cache does not begin with `<s>`, padding
                is not on the right, there are embeddings in place of tokens, or a cache is wanted of layers that
                compute again.
            TypeError: a cache has another name.
        """
        for name in ("inputs_embeds", "decoder_inputs_embeds"):
            if others.get(name) is not None:
                raise ValueError(f"posnmt's models read tokens, not {name}; give input_ids and decoder_input_ids")
        if use_cache and self.gradient_checkpointing and self.training and torch.is_grad_enabled():
            raise ValueError("with gradient checkpointing there is no cache in training; leave use_cache out")
        unknown = [name for name, value in others.items() if isinstance(value, StateCache)]
        if unknown:
            raise TypeError(f"posnmt's models do not know a cache with the name {unknown[0]}; {_OTHER_VERSION}")
        if cache is None:
            cache = past_key_values
        if labels is not None and decoder_input_ids is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
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
        loss = None if labels is None else _loss(logits, labels, num_items_in_batch)
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

        Raises:
            ValueError: the settings ask for assisted generation.
        """
        ids = inputs if inputs is not None else options.get("input_ids")
        refuse_assisted(options, generation_config)
        sized = has_length(options, generation_config)
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


def _loss(logits: Tensor, labels: Tensor, count: Tensor | int | None) -> Tensor:
    """The cross-entropy of labels [B,T], -100 where there is none, from logits [B,T,V], in nats."""
    scores, wanted = logits.flatten(0, 1), labels.flatten().to(logits.device)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    if count is None:
        return functional.cross_entropy(scores, wanted)
    if isinstance(count, Tensor):
        count = count.to(logits.device)
    return functional.cross_entropy(scores, wanted, reduction="sum") / count
