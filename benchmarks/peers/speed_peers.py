"""The toolkits of the comparison: posnmt, and each peer with its own command, its own options and the same model.

Dropout is 0.1 where posnmt has it (embeddings, sub-layers) and 0 on attention where a toolkit lets one choose.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from opennmt_tanaka import configuration
from speed_data import SOURCE, TARGET
from speed_trainer import REPORT, Job, Report, Trainer, by_pattern

from posnmt.data.subword import BOS, EOS, PAD

CONFIG = Path(__file__).parents[2] / "configs" / "tanaka-en-ja.yaml"
BETAS = (0.9, 0.98)
BOTH = ("transformer", "relative")
COUNTER = by_pattern(r"updates (?P<step>\d+), target tokens (?P<tokens>\d+), seconds (?P<seconds>[\d.]+)")
OPENNMT_LOG = by_pattern(r"Step +(?P<step>\d+)/.* bsz: *\d+/ *(?P<mean>\d+)/.*/ *(?P<rate>\d+) tok/s;")
# The log has the rate, then the mean, then the number of updates; all are since the last line but the last.
FAIRSEQ_LOG = by_pattern(
    r'train_inner .*"wps": "(?P<rate>[\d.]+)".*"wpb": "(?P<mean>[\d.]+)".*"num_updates": "(?P<step>\d+)"'
)
Command = list[str | Path]


def posnmt_settings(job: Job, precision: str) -> list[str]:
    """What differs from the shipped configuration of this corpus."""
    return [
        f"data.root={job.corpus.absolute()}", "data.dev=null", f"data.store={job.data.absolute()}/stores",
        f"model.system={job.system}", f"model.size={job.size}",
        "train.minutes=null", f"train.steps={job.updates}", f"train.batch={job.batch}", f"train.log_every={REPORT}",
        "train.average=1", f"train.precision={precision}",
    ]  # fmt: skip


def posnmt(precision: str) -> Trainer:
    """posnmt's own command in one precision."""

    def command(job: Job) -> Command:
        settings = [each for setting in posnmt_settings(job, precision) for each in ("--set", setting)]
        return [Path(sys.executable).with_name("posnmt"), "train", CONFIG, "--out", job.folder / "run", *settings]

    def reports(job: Job, _: str) -> list[Report]:
        lines = (job.folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        figures = [line for line in map(json.loads, lines) if line["kind"] == "train"]
        return [
            Report(line["step"], line["target_tokens"], line["target_tokens"] / line["target_tokens_per_second"])
            for line in figures
        ]

    return Trainer("", f"posnmt {precision}", "posnmt", command, reports)


def opennmt(job: Job) -> Command:
    """OpenNMT-py 3.5 as `opennmt_tanaka.py` trains it, in another size and without its validation."""
    shape, relative = job.shape, job.system == "relative"
    settings = argparse.Namespace(
        output=job.data, seed=1, warmup=job.warmup, peak_rate=job.rate, batch=job.batch, every=job.updates
    )
    config = configuration(settings)
    config["data"].pop("valid")
    config |= {
        "hidden_size": shape["width"], "word_vec_size": shape["width"], "transformer_ff": shape["feed_forward"],
        "heads": shape["heads"], "layers": shape["layers"], "attention_dropout": [0.0],
        "position_encoding": not relative, "max_relative_positions": job.distance if relative else 0,
        "save_model": f"{job.folder}/model", "train_steps": job.updates, "report_every": REPORT,
    }  # fmt: skip
    return [job.program("onmt_train"), "--config", job.write("train.yaml", config)]


def eole(job: Job) -> Command:
    """Eole, with the settings of OpenNMT-py, its ancestor."""
    shape, relative = job.shape, job.system == "relative"
    position: dict[str, Any] = {"position_encoding_type": "SinusoidalInterleaved"}
    if relative:
        position = {"position_encoding_type": "Relative", "n_positions": job.distance}
    config = {
        "data": {"train": {"path_src": f"{job.data}/train.{SOURCE}", "path_tgt": f"{job.data}/train.{TARGET}"}},
        "src_vocab": f"{job.data}/vocabulary", "tgt_vocab": f"{job.data}/vocabulary", "share_vocab": True,
        "seed": 1, "report_every": REPORT,
        "model": {
            "architecture": "transformer", "hidden_size": shape["width"], "transformer_ff": shape["feed_forward"],
            "heads": shape["heads"], "layers": shape["layers"], "add_qkvbias": True, "add_ffnbias": True,
            "share_embeddings": True, "share_decoder_embeddings": True,
            "embeddings": {"word_vec_size": shape["width"], **position}, **position,
        },
        "training": {
            "model_path": f"{job.folder}/model", "train_steps": job.updates, "valid_steps": job.updates,
            "save_checkpoint_steps": job.updates, "bucket_size": 20011, "num_workers": 0,
            "batch_type": "tokens", "batch_size": job.batch, "normalization": "tokens", "compute_dtype": "fp32",
            "optim": "adam", "adam_beta1": BETAS[0], "adam_beta2": BETAS[1], "decay_method": "noam",
            "warmup_steps": job.warmup, "learning_rate": job.rate * (shape["width"] * job.warmup) ** 0.5,
            "max_grad_norm": 1.0,
            "param_init": 0, "param_init_method": "xavier_uniform",
            "dropout": [0.1], "attention_dropout": [0.0], "label_smoothing": 0.1,
        },
    }  # fmt: skip
    return [job.program("eole"), "train", "--config", job.write("train.yaml", config)]


def fairseq_setup(job: Job) -> Command:
    """fairseq's own binary form of the data."""
    test: Command = ["--testpref", job.data / "test"] if (job.data / f"test.{SOURCE}").exists() else []
    return [
        *launcher(job, "fairseq-preprocess"), "--source-lang", SOURCE, "--target-lang", TARGET,
        "--trainpref", job.data / "train", "--validpref", job.data / "valid", "--destdir", job.data / "fairseq",
        "--srcdict", job.data / "dictionary", "--joined-dictionary", *test,
    ]  # fmt: skip


def fairseq(job: Job) -> Command:
    """fairseq's `transformer` on the data of `fairseq_setup`."""
    shape = job.shape
    evaluation: Command = ["--disable-validation", "--no-save"]
    if job.evaluate_every:
        evaluation = [
            "--validate-interval-updates", str(job.evaluate_every), "--validate-interval", str(job.updates),
            "--max-tokens-valid", "8192", "--save-interval", str(job.updates), "--save-dir", job.folder / "model",
        ]  # fmt: skip
    stacks: Command = []
    for stack in ("encoder", "decoder"):
        for option, value in (
            ("layers", "layers"), ("embed-dim", "width"), ("ffn-embed-dim", "feed_forward"),
            ("attention-heads", "heads"),
        ):  # fmt: skip
            stacks += [f"--{stack}-{option}", str(shape[value])]
    schedule: Command = ["--lr-scheduler", "inverse_sqrt"]
    if job.schedule == "linear":
        schedule = ["--lr-scheduler", "polynomial_decay", "--total-num-update", str(job.updates)]
    return [
        *launcher(job, "fairseq-train"), job.data / "fairseq", "--task", "translation",
        "--source-lang", SOURCE, "--target-lang", TARGET, "--arch", "transformer", *stacks, "--share-all-embeddings",
        "--dropout", str(job.dropout), "--attention-dropout", "0", "--activation-dropout", "0",
        "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1",
        "--optimizer", "adam", "--adam-betas", str(BETAS), "--clip-norm", "1", "--lr", str(job.rate),
        *schedule, "--warmup-updates", str(job.warmup),
        "--max-tokens", str(job.batch), "--max-update", str(job.updates), "--seed", str(job.seed),
        *([] if job.on_gpu else ["--cpu"]),
        "--log-interval", str(REPORT), "--log-format", "json", *evaluation,
    ]  # fmt: skip


def hugging_face(job: Job) -> Command:
    """The loop of `speed_huggingface.py`: transformers brings no trainer of translators from scratch."""
    numbers = json.loads((job.data / "vocabulary.json").read_text(encoding="utf-8"))
    size = {**job.shape, "vocabulary": len(numbers), "pad": PAD, "bos": BOS, "eos": EOS}
    evaluation: Command = []
    if job.evaluate_every:
        evaluation = ["--dev", job.data / "valid.jsonl", "--every", str(job.evaluate_every)]
        evaluation += ["--outputs", job.folder / "outputs.jsonl"]
    return [
        job.program("python"), beside("speed_huggingface.py"), job.write("size.json", size), job.data / "batches.jsonl",
        "--seed", str(job.seed), "--warmup", str(job.warmup), *evaluation,
    ]  # fmt: skip


def joeynmt(job: Job) -> Command:
    """JoeyNMT, whose batches are not sorted by length."""
    shape = job.shape
    side = {"level": "word", "max_length": 1000, "voc_file": f"{job.data}/vocabulary"}
    stack = {
        "type": "transformer", "num_layers": shape["layers"], "num_heads": shape["heads"],
        "embeddings": {"embedding_dim": shape["width"], "scale": True, "dropout": 0.1},
        "hidden_size": shape["width"], "ff_size": shape["feed_forward"], "dropout": 0.1, "layer_norm": "post",
    }  # fmt: skip
    config = {
        "name": "speed", "model_dir": f"{job.folder}/model", "use_cuda": False, "fp16": False, "random_seed": 1,
        "data": {
            "train": f"{job.data}/train", "dev": f"{job.data}/valid", "dataset_type": "plain",
            "src": {"lang": SOURCE, **side}, "trg": {"lang": TARGET, **side},
        },
        "testing": {},
        "training": {
            "optimizer": "adam", "adam_betas": list(BETAS), "learning_rate": job.rate, "learning_rate_min": 0.0,
            "learning_rate_warmup": job.warmup, "scheduling": "warmupinversesquareroot", "clip_grad_norm": 1.0,
            "normalization": "tokens", "label_smoothing": 0.1, "batch_type": "token", "batch_size": job.batch,
            "epochs": 1000, "updates": job.updates, "logging_freq": REPORT, "validation_freq": 1000 * REPORT,
        },
        "model": {
            "initializer": "xavier_uniform", "embed_initializer": "xavier_uniform", "tied_embeddings": True,
            "tied_softmax": True, "encoder": stack, "decoder": stack,
        },
    }  # fmt: skip
    return [*launcher(job, "joeynmt"), "train", job.write("train.yaml", config), "--skip-test"]


def sockeye(job: Job) -> Command:
    """Sockeye 3."""
    shape, vocabulary = job.shape, job.data / "vocabulary.json"
    return [
        *launcher(job, "sockeye-train"),
        "--source", job.data / f"train.{SOURCE}", "--target", job.data / f"train.{TARGET}",
        "--validation-source", job.data / f"valid.{SOURCE}", "--validation-target", job.data / f"valid.{TARGET}",
        "--source-vocab", vocabulary, "--target-vocab", vocabulary, "--shared-vocab", "--output", job.folder / "model",
        "--num-layers", str(shape["layers"]), "--transformer-model-size", str(shape["width"]),
        "--transformer-attention-heads", str(shape["heads"]),
        "--transformer-feed-forward-num-hidden", str(shape["feed_forward"]),
        "--embed-dropout", "0.1", "--transformer-dropout-prepost", "0.1", "--transformer-dropout-act", "0",
        "--transformer-dropout-attention", "0", "--label-smoothing", "0.1",
        "--optimizer", "adam", "--optimizer-betas", ":".join(map(str, BETAS)), "--initial-learning-rate", str(job.rate),
        "--learning-rate-scheduler-type", "inv-sqrt-decay", "--learning-rate-warmup", str(job.warmup),
        "--gradient-clipping-type", "norm", "--gradient-clipping-threshold", "1",
        "--batch-type", "max-word", "--batch-size", str(job.batch), "--max-updates", str(job.updates),
        "--max-seq-len", "101", "--seed", "1", "--use-cpu",
    ]  # fmt: skip


def launcher(job: Job, command: str) -> Command:
    """The beginning of a command that `speed_launch.py` starts."""
    return [job.program("python"), beside("speed_launch.py"), command]


def beside(name: str) -> Path:
    """A file of this folder."""
    return Path(__file__).with_name(name)


TRAINERS = (
    Trainer("opennmt", "OpenNMT-py", "OpenNMT-py", opennmt, OPENNMT_LOG, BOTH),
    Trainer("eole", "Eole", "eole", eole, OPENNMT_LOG, BOTH),
    Trainer("fairseq", "fairseq", "fairseq", fairseq, FAIRSEQ_LOG, setup=fairseq_setup),
    Trainer("huggingface", "Marian in transformers", "transformers", hugging_face, COUNTER),
    Trainer("joeynmt", "JoeyNMT", "joeynmt", joeynmt, COUNTER),
    Trainer("sockeye", "Sockeye", "sockeye", sockeye, COUNTER),
)
PEERS = {trainer.key: trainer for trainer in TRAINERS}
