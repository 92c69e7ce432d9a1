"""The configuration of a posnmt model in Transformers: the `model` section and the limits of search."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig

from posnmt.data.subword import BOS, EOS, PAD

_COPY = "posnmt_deploy_huggingface"
"""Beginning of the names of modules in an export (`posnmt.deploy.huggingface.code`)."""

AUTO_MAP = {
    "AutoConfig": f"{_COPY}_config.PosnmtConfig",
    "AutoModelForSeq2SeqLM": f"{_COPY}_model.PosnmtForConditionalGeneration",
}
TOKENIZER_MAP = {"AutoTokenizer": (f"{_COPY}_tokenizer.PosnmtTokenizer", None)}
PIPELINES = {
    "translation": {
        "impl": f"{_COPY}_model.PosnmtTranslationPipeline",  # Transformers copies this module when the model is saved
        "pt": ["AutoModelForSeq2SeqLM"],
        "type": "text",
        "default": {"model": {"pt": (None, None)}},
    }
}
"""What `config.json` and `tokenizer_config.json` say about these classes."""


class PosnmtConfig(PretrainedConfig):
    """The configuration of a posnmt model.

    Attributes:
        posnmt: the `model` section of a run's configuration.
        source_vocab_size, vocab_size: vocabulary entries of source and target.
        max_ratio, max_extra, min_output: unless `generate` gets a length, the longest output has `max_ratio` x source +
            `max_extra` subwords, and the shortest has `min_output` or, if that is less, as many as the longest.
    """

    model_type = "posnmt"
    keys_to_ignore_at_inference = ["past_key_values", "cache"]  # noqa: RUF012

    def __init__(
        self,
        posnmt: dict[str, Any] | None = None,
        source_vocab_size: int = 0,
        vocab_size: int = 0,
        max_ratio: float = 2.0,
        max_extra: int = 50,
        min_output: int = 0,
        **options: Any,
    ) -> None:
        self.posnmt = posnmt or {}
        self.source_vocab_size, self.vocab_size = source_vocab_size, vocab_size
        self.max_ratio, self.max_extra, self.min_output = max_ratio, max_extra, min_output
        self.hidden_size = self.posnmt.get("d_model")
        self.num_hidden_layers = self.posnmt.get("decoder", {}).get("layers")
        symbols = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
        options["is_encoder_decoder"] = True
        options["tie_word_embeddings"] = self.posnmt.get("tie_embeddings", "none") != "none"
        super().__init__(**{**symbols, **options})
