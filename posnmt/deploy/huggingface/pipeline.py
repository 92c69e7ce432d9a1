"""`pipeline("translation")` of Transformers for posnmt's models; Transformers 5 has no pipeline for translation."""

from __future__ import annotations

from typing import Any

from transformers import Pipeline


class PosnmtTranslationPipeline(Pipeline):
    """From a text, or a list of them, to `[{"translation_text": …}]` for each, as Transformers 4 had it.

    Other arguments of a call are settings of `generate`.
    """

    _load_tokenizer = True
    _load_processor = _load_image_processor = _load_video_processor = _load_feature_extractor = False

    def _sanitize_parameters(self, **settings: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        return {}, settings, {}

    def preprocess(self, text: str) -> Any:
        """Encode a text: tensors with one row."""
        return self.tokenizer([text], return_tensors="pt")

    def _forward(self, inputs: Any, **settings: Any) -> dict[str, Any]:
        ids = self.model.generate(**inputs, **settings)
        return {"ids": ids.unflatten(0, (len(inputs["input_ids"]), -1))}  # [B,N,T]: N outputs of each text

    def postprocess(self, outputs: dict[str, Any]) -> list[dict[str, str]]:
        """Decode the outputs of a text, without special symbols, as `translation_text`."""
        texts = self.tokenizer.batch_decode(outputs["ids"][0], skip_special_tokens=True)
        return [{"translation_text": text} for text in texts]
