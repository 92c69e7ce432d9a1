"""Write tiny models with random weights: real classes of COMET and Transformers. Run by the Python that has these.

python tiny_neural.py FOLDER
"""

import sys
from pathlib import Path

import sentencepiece
import torch
import yaml
from comet.models import str2model
from pytorch_lightning import Trainer
from transformers import (
    MT5Config,
    MT5ForConditionalGeneration,
    T5Tokenizer,
    XLMRobertaConfig,
    XLMRobertaModel,
    XLMRobertaTokenizerFast,
)

TEXT = [
    "the dog sees the cat", "a small house by the lake", "one two three four five six seven eight nine ten",
    "der Hund sieht die Katze", "ein kleines Haus am See", "eins zwei drei vier fünf sechs sieben acht neun zehn",
    "source : candidate : reference :",
]  # fmt: skip
POSITIONS = 36
"""Of the encoder: 32 subwords and the special ones."""
KINDS = {
    "comet": ("regression_metric", {}),
    "kiwi": ("unified_metric", {"input_segments": ["mt", "src"], "sent_layer": "mix", "word_layer": 1}),
    "xcomet": ("xcomet_metric", {"word_layer": 1, "encoder_model": "XLM-RoBERTa"}),
}


def subwords(folder: Path) -> Path:
    """A SentencePiece model."""
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(TEXT * 20), model_prefix=str(folder / "pieces"), vocab_size=60, minloglevel=2,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, user_defined_symbols=[],
    )  # fmt: skip
    return folder / "pieces.model"


def encoder(folder: Path, pieces: Path) -> Path:
    """Tokeniser, configuration and random weights of an encoder."""
    tokenizer = XLMRobertaTokenizerFast(vocab_file=str(pieces))
    tokenizer.save_pretrained(folder)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=POSITIONS, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1,
    )  # fmt: skip
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def comet(folder: Path, encoder_folder: Path, name: str) -> None:
    """A checkpoint as COMET's own trainer writes it, and the settings beside it."""
    kind, more = KINDS[name]
    model = str2model[kind](
        pretrained_model=str(encoder_folder), hidden_sizes=[16], nr_frozen_epochs=0, keep_embeddings_frozen=False,
        layer_transformation="sparsemax", **more,
    )  # fmt: skip
    for parameter in model.estimator.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    trainer = Trainer(logger=False, accelerator="cpu", enable_checkpointing=False)
    trainer.strategy.connect(model)
    (folder / "checkpoints").mkdir(parents=True)
    trainer.save_checkpoint(folder / "checkpoints" / "model.ckpt", weights_only=True)
    settings = {**model.hparams, "class_identifier": kind}
    (folder / "hparams.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def metricx(folder: Path, pieces: Path) -> None:
    """A model of mT5 with the whole vocabulary, since the score is a logit of a subword near its end."""
    config = MT5Config(
        vocab_size=250112, d_model=8, d_kv=4, d_ff=16, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    model = MT5ForConditionalGeneration(config)
    torch.nn.init.normal_(model.lm_head.weight, mean=2.0, std=2.0)
    model.save_pretrained(folder)
    T5Tokenizer(vocab_file=str(pieces), legacy=True).save_pretrained(folder)


def main(folder: Path) -> None:
    torch.manual_seed(1)
    folder.mkdir(parents=True, exist_ok=True)
    pieces = subwords(folder)
    for name in KINDS:
        comet(folder / name, encoder(folder / "encoder", pieces), name)
    metricx(folder / "metricx", pieces)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
