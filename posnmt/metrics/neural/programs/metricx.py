"""Score translations by MetricX-24 (Juraska et al. 2024), with a reference; from 0, the best, to 25.

The published code (google-research/metricx) has a class of its own, for Transformers 4.30. Its weights have the names
of `MT5ForConditionalGeneration`, and its score is a logit of the first step of that model's decoder. So that class is
used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

PACKAGES = ("transformers", "sentencepiece", "torch")
TOKENIZER = "google/mt5-xl"
"""All sizes of mT5 have the same tokeniser; this is the one that the published commands name."""
FILES = ("*.json", "*.model")
SCORE = 250089
"""The subword whose logit is the score: `<extra_id_10>`."""
WORST = 25.0
LONGEST = 1536
"""Subwords of an input; longer ones are cut."""
Get = Callable[..., str]
Sentence = dict[str, str]


def find(model: str, get: Get, reference: bool) -> dict[str, str]:
    """Part → its folder: the model and its tokeniser, which may be in the same folder.

    Raises:
        ValueError: it is of MetricX-23, which reads another form of input.
    """
    if "metricx-23" in model.lower():
        raise ValueError(f"{model} is of MetricX-23, whose input has another form; MetricX-24 is supported")
    folder = get(model)
    has_tokenizer = any(Path(folder, name).exists() for name in ("spiece.model", "tokenizer.json"))
    return {"model": folder, "tokenizer": folder if has_tokenizer else get(TOKENIZER, FILES)}


def load(paths: dict[str, str], reference: bool) -> Callable[[Sequence[Sentence]], list[tuple[float, bool]]]:
    """Load a model and return a function that scores sentences: for each its score, and whether its text was cut."""
    import torch
    from transformers import AutoTokenizer, MT5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(paths["tokenizer"], local_files_only=True)
    model = MT5ForConditionalGeneration.from_pretrained(paths["model"], dtype="auto", local_files_only=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.eval().to(device)

    def scorer(sentences: Sequence[Sentence]) -> list[tuple[float, bool]]:
        texts = [
            f"source: {each['source']} candidate: {each['hypothesis']} reference: {each['reference']}"
            for each in sentences
        ]
        whole = tokenizer(texts)["input_ids"]
        ids = [[*each[:-1][: LONGEST - 1]] for each in whole]  # without the end of the sentence, as in training
        longest = max(map(len, ids))
        tokens = torch.tensor([[*each, *[tokenizer.pad_token_id] * (longest - len(each))] for each in ids])
        mask = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in ids])
        start = torch.zeros(len(ids), 1, dtype=torch.long)
        with torch.inference_mode():
            logits = model(
                input_ids=tokens.to(device), attention_mask=mask.to(device), decoder_input_ids=start.to(device)
            ).logits
        scores = logits[:, 0, SCORE].float().clamp(0, WORST).tolist()
        return [(score, len(each) > LONGEST) for score, each in zip(scores, whole, strict=True)]

    return scorer
