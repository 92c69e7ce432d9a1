"""The model card of an exported run: its system, training text, scores and limits."""

from __future__ import annotations

import json
from typing import Any

from safetensors import safe_open

from posnmt.base.version import __version__
from posnmt.config.corpora import Corpus, ListedCorpus
from posnmt.deploy.folder import Manifest
from posnmt.run.run import Run

PACKAGES = ("transformers", "torch", "sentencepiece", "protobuf", "sacremoses", "pydantic")
"""What an export with its own code needs to be loaded where posnmt is not installed."""


def card(run: Run, manifest: Manifest) -> str:
    """A model card in Markdown, with the metadata that Hugging Face's hub reads."""
    source, target = manifest.languages["source"], manifest.languages["target"]
    system = manifest.system or "a system of its own"
    lines = [
        "---",
        f"language: {json.dumps([source, target])}",  # quoted, since no is false in YAML
        "pipeline_tag: translation",
        "library_name: transformers",
        "tags: [translation, posnmt]",
        "---",
        "",
        f"# {manifest.run}: {source} to {target}",
        "",
        f"A translator {_origin(run)}, exported by posnmt {__version__}.",
        "",
        "| | |",
        "|---|---|",
        f"| system | {system} (architecture {manifest.architecture}) |",
        *(f"| positions, {side} | {_shown(choices)} |" for side, choices in manifest.positions.items()),
        f"| parameters | {run.record.get('parameters', 0):,} |",
        f"| training text | {'unknown' if 'imported' in run.record else _names(run.config.data.train)} |",
        f"| checkpoint | {manifest.checkpoint}, SHA-256 {manifest.weights[:16]}… |",
        *_scores(dev_figures(run, manifest.checkpoint), run),
        *_lengths(manifest),
        f"| output | at most {manifest.decode.max_ratio:g} x source + {manifest.decode.max_extra} subwords |",
        "",
        *_usage(manifest.code),
    ]
    return "\n".join(lines) + "\n"


def _usage(code: bool) -> list[str]:
    """How the model is loaded, with the folder's own code or with posnmt's."""
    trusted = ", trust_remote_code=True" if code else ""
    needed = f"pip install {' '.join(PACKAGES)}" if code else 'pip install "posnmt[huggingface]"'
    return [
        "```python",
        *([] if code else ["import posnmt.deploy.huggingface"]),
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("."{trusted})',
        f'model = AutoModelForSeq2SeqLM.from_pretrained("."{trusted})',
        'outputs = model.generate(**tokenizer(["A sentence."], return_tensors="pt", padding=True))',
        "tokenizer.batch_decode(outputs, skip_special_tokens=True)",
        "```",
        "",
        f"It needs: `{needed}`.",
        *(
            ["Where `import posnmt.deploy.huggingface` comes first, it loads without `trust_remote_code`."]
            if code
            else []
        ),
    ]


def dev_figures(run: Run, checkpoint: str) -> dict[str, Any]:
    """The figures of a checkpoint on dev, from the header of its weights; those of an average, from the metrics."""
    with safe_open(run.trained_weights(checkpoint), framework="pt") as file:
        figures: dict[str, Any] = json.loads((file.metadata() or {}).get("dev", "{}"))
    path = run.folder / "metrics.jsonl"
    averaged = "average" in (checkpoint, run.record.get("model") if checkpoint == "model" else None)
    if figures or not averaged or not path.exists():
        return figures
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return next((line for line in reversed(lines) if line["kind"] == "average"), {})


def _origin(run: Run) -> str:
    """The origin of the model, as part of a sentence."""
    version = run.record.get("posnmt", "unknown version")
    imported = run.record.get("imported")
    if imported is None:
        return f"trained by posnmt ({version})"
    return f"of another toolkit, read from its format {imported['format']} by posnmt ({version})"


def _shown(choices: list[dict[str, Any]]) -> str:
    """Position schemes with their options, as text."""
    shown = [
        " ".join([choice["scheme"], *(f"{key}={value}" for key, value in choice.items() if key != "scheme")])
        for choice in choices
    ]
    return " + ".join(shown) or "none"


def _names(corpora: Corpus | list[ListedCorpus]) -> str:
    """The file names of a corpus or of several, without folders."""
    listed = [corpora] if isinstance(corpora, Corpus) else corpora
    paths = [path for each in listed for path in (getattr(each, "file", None), each.tsv, each.source, each.target)]
    return ", ".join(path.replace("\\", "/").rsplit("/", 1)[-1] for path in paths if path is not None)


def _scores(figures: dict[str, Any], run: Run) -> list[str]:
    dev = run.config.data.dev
    name = "pairs held out of the training text" if dev is None else _names(dev)
    rows = []
    if "bleu" in figures:
        signature = figures["signature"].replace("|", "\\|")  # for a cell of a table
        rows.append(f"| BLEU on dev ({name}), greedy | {figures['bleu']:.2f} ({signature}) |")
    if "perplexity" in figures:
        rows.append(f"| perplexity on dev, per subword | {figures['perplexity']:.3f} |")
    return rows


def _lengths(manifest: Manifest) -> list[str]:
    rows = []
    for side, spread in (manifest.training_lengths or {}).items():
        rows.append(f"| trained lengths, {side} | {spread['shortest']} to {spread['longest']} subwords |")
    for side, shares in (manifest.sentences_per_line or {}).items():
        rows.append(f"| training lines of several sentences, {side} | {100 * sum(shares[1:2]):.2g} % |")
    for side, limit in manifest.limits.items():
        rows.append(f"| longest {side} | {'no limit' if limit is None else f'{limit - 1} subwords'} |")
    return rows
