"""A demonstration on the built-in language pair: train on short sentences, and translate longer ones.

Two systems, one with absolute and one with relative positions, make the same number of updates on sentences of at most
14 words, and then translate sentences up to three times as long. A slow or busy machine takes more time and gets the
same result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from posnmt.base.progress import Display
from posnmt.corpora.artificial.pairs import command as artificial
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.report.write import write
from posnmt.run.resolve import from_tree
from posnmt.run.run import Run, refuse_existing
from posnmt.training.train import train
from posnmt.translate.command import translate_file
from posnmt.translate.source import Files

SYSTEMS: dict[str, list[dict[str, Any]]] = {
    "absolute": [{"scheme": "sinusoidal"}],
    # the clipping distance must be well below the training lengths: vectors of unseen distances stay untrained
    "relative": [{"scheme": "relative", "distance": 4}],
}
LONGEST = 14
LONGEST_TEST = 42


def demo(out: Path, updates: int, seed: int, display: Display) -> Path:
    """Generate a corpus, train both systems, translate, analyse.

    Args:
        out: a new folder.
        updates: number of updates of each training.
        seed: seed of the corpus and of both trainings.

    Returns:
        The report's path.

    Raises:
        UserError: the folder exists.
    """
    refuse_existing(out, "the folder", "choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    corpus = out / "corpus"
    display.say(f"making the artificial language pair in {corpus}")
    artificial(corpus, max_length=LONGEST, test_max_length=LONGEST_TEST, seed=seed)
    outputs: dict[str, Path] = {}
    for name, position in SYSTEMS.items():
        display.say(f"training the {name} system: {updates:,} updates")
        config = from_tree(_config(corpus, out / "stores", position, updates, seed))
        run = train(config, out / name, display=display)
        display.say(f"translating sentences of up to {LONGEST_TEST} words")
        outputs[name] = out / f"test.{name}"
        translate_file(run.folder, Files(corpus / "test.source", outputs[name]), {"beam": 1})
    model = Run.open(out / "relative").folder / "text" / "source.model"
    longest = run.record["training_lengths"]["source"]["longest"]
    settings = Settings(unit="subwords", subword_model=model, bin_width=5, max_trained_length=longest)
    analysis = analyse(corpus / "test.source", corpus / "test.target", outputs, settings, say=display.say)
    display.say("drawing")
    write(analysis, out / "report")
    display.say(f"After {updates:,} updates each. {analysis.results['verdict']['sentence']}")
    return out / "report" / "report.html"


def _config(corpus: Path, stores: Path, position: list[dict[str, Any]], updates: int, seed: int) -> dict[str, Any]:
    """The configuration of one of the two systems; other settings have their defaults."""
    files = {
        split: {side: str(corpus.resolve() / f"{split}.{side}") for side in ("source", "target")}
        for split in ("train", "dev")
    }
    return {
        "data": {**files, "store": str(stores.resolve())},
        "subword": {"type": "bpe", "vocabulary": 1000},
        "model": {
            "d_model": 128, "feed_forward": 512, "heads": 4, "tie_embeddings": "all",
            "encoder": {"layers": 2, "position": position}, "decoder": {"layers": 2, "position": position},
        },
        "train": {
            "steps": updates, "seed": seed, "batch": 1024, "optimizer": "muon", "learning_rate": 2e-3,
            "schedule": {"warmup": updates // 5, "cooldown": 0.3}, "evaluate_every": -(-updates // 3), "average": 1,
        },
        "decode": {"max_ratio": 3.0},
    }  # fmt: skip
