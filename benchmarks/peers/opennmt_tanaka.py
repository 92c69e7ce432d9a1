"""OpenNMT-py 3.5.1 on the English-Japanese Tanaka corpus, for a given number of minutes on this machine's CPU.

    python benchmarks/peers/opennmt_tanaka.py ENVIRONMENT CORPUS OUTPUT MINUTES

Makes the virtual environment ENVIRONMENT when it is missing, learns shared subwords on CORPUS, trains a small
Transformer with OpenNMT-py's own commands until MINUTES of training have passed, averages the last checkpoints,
translates dev and test, and writes OUTPUT/result.json. README.md beside this file says why each setting is what it is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from speed_environment import prepare_environment

SOURCE, TARGET = "en", "ja"
SPLITS = ("train", "dev", "test")
AVERAGES = (3, 5, 10)
PACKAGES = ("OpenNMT-py", "torch", "sentencepiece", "sacrebleu", "pyonmttok", "numpy")
# Checkpoints hold the options as an argparse.Namespace, which torch.load refuses since 2.6; these files are our own.
ENVIRONMENT = {
    **os.environ,
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
    "PYTHONWARNINGS": "ignore",
    "PYTHONUNBUFFERED": "1",
}


def main() -> None:
    arguments = parse_arguments()
    interpreter = prepare_environment(arguments.environment, "constraints-opennmt.txt")
    if Path(sys.prefix).resolve() != arguments.environment.resolve():
        os.execv(interpreter, [str(interpreter), *sys.argv])
    arguments.output.mkdir(parents=True, exist_ok=True)
    if (arguments.output / "result.json").exists():
        sys.exit(f"error: {arguments.output}/result.json exists; name another output folder")
    prepare_subwords(arguments.corpus, arguments.output)
    training = train(arguments)
    candidates = {}
    for name, checkpoint in choose_candidates(arguments.output, training).items():
        candidates[name] = {split: translate(arguments, checkpoint, name, split) for split in ("dev", "test")}
    chosen = max(candidates, key=lambda name: candidates[name]["dev"]["bleu"])
    result = {
        "system": "OpenNMT-py",
        "chosen_by_dev_bleu": chosen,
        **candidates[chosen],
        "training": training,
        "settings": {key: str(value) for key, value in vars(arguments).items()},
        "candidates": candidates,
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
    }
    text = json.dumps(result, indent=2, ensure_ascii=False)
    (arguments.output / "result.json").write_text(text + "\n", encoding="utf-8", newline="\n")
    print(text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path, help="OpenNMT-py's own virtual environment; made when missing")
    parser.add_argument("corpus", type=Path, help="folder with train, dev and test .en and .ja")
    parser.add_argument("output", type=Path, help="folder for everything written; result.json at the end")
    parser.add_argument("minutes", type=float, help="training time, validations and checkpoints included")
    parser.add_argument("--batch", type=int, default=4096, help="padded tokens of the longer side (%(default)s)")
    parser.add_argument("--warmup", type=int, default=300, help="steps (%(default)s)")
    parser.add_argument("--peak-rate", type=float, default=1e-3, help="learning rate after the warmup (%(default)s)")
    parser.add_argument("--every", type=int, default=25, help="steps between validations and checkpoints (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, split on the line feed alone."""
    with path.open(encoding="utf-8", newline="\n") as file:
        return file.read().removesuffix("\n").split("\n")


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def prepare_subwords(corpus: Path, output: Path) -> None:
    """Learn 8,000 shared BPE subwords on the training text and write every file as pieces, and the vocabulary."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=f"{corpus}/train.{SOURCE},{corpus}/train.{TARGET}",
        model_prefix=f"{output}/subwords",
        model_type="bpe",
        vocab_size=8000,
        character_coverage=1.0,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    subwords = sentencepiece.SentencePieceProcessor(model_file=f"{output}/subwords.model")
    for split in SPLITS:
        for language in (SOURCE, TARGET):
            lines = read_lines(corpus / f"{split}.{language}")
            write_lines(
                output / f"{split}.{language}", [" ".join(pieces) for pieces in subwords.encode(lines, out_type=str)]
            )
    size = subwords.get_piece_size()
    pieces = [subwords.id_to_piece(i) for i in range(size) if not subwords.is_control(i) and not subwords.is_unknown(i)]
    write_lines(output / "vocabulary", pieces)


def configuration(arguments: argparse.Namespace) -> dict[str, Any]:
    """OpenNMT-py's configuration of the model and of its training."""
    output = arguments.output
    return {
        "data": {
            "corpus_1": {"path_src": f"{output}/train.{SOURCE}", "path_tgt": f"{output}/train.{TARGET}"},
            "valid": {"path_src": f"{output}/dev.{SOURCE}", "path_tgt": f"{output}/dev.{TARGET}"},
        },
        "src_vocab": f"{output}/vocabulary", "tgt_vocab": f"{output}/vocabulary", "share_vocab": True,
        "save_model": f"{output}/model", "seed": arguments.seed,
        # A bucket larger than the corpus holds each pair several times, and OpenNMT-py drops a source that is already
        # in the batch; a bucket that does not divide the corpus makes other batches in every epoch.
        "bucket_size": 20011, "num_workers": 0,
        "encoder_type": "transformer", "decoder_type": "transformer", "layers": 3, "heads": 4, "hidden_size": 256,
        "word_vec_size": 256, "transformer_ff": 1024, "position_encoding": True, "share_embeddings": True,
        "share_decoder_embeddings": True, "param_init": 0, "param_init_glorot": True,
        "dropout": [0.1], "attention_dropout": [0.1], "label_smoothing": 0.1, "max_grad_norm": 1.0,
        "optim": "adam", "adam_beta2": 0.98, "decay_method": "noam", "warmup_steps": arguments.warmup,
        # noam's rate is factor x hidden_size^-0.5 x min(step^-0.5, step x warmup^-1.5), highest at step = warmup.
        "learning_rate": arguments.peak_rate * (256 * arguments.warmup) ** 0.5,
        "batch_type": "tokens", "batch_size": arguments.batch, "valid_batch_size": arguments.batch,
        "normalization": "tokens", "model_dtype": "fp32",
        "train_steps": 1_000_000, "valid_steps": arguments.every, "save_checkpoint_steps": arguments.every,
        "keep_checkpoint": -1, "report_every": 10,
    }  # fmt: skip


def train(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train until the time is over; the clock starts at the first batch. What was measured, read from the log."""
    import torch

    output = arguments.output
    (output / "train.yaml").write_text(json.dumps(configuration(arguments), indent=2), encoding="utf-8")  # JSON is YAML
    command = [Path(sys.prefix) / "bin" / "onmt_train", "--config", output / "train.yaml"]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
    )
    assert process.stdout is not None
    stop = threading.Timer(arguments.minutes * 60, process.send_signal, [signal.SIGTERM])
    started, reports, validations, checkpoints, parameters = 0.0, [], {}, [], 0
    with (output / "train.log").open("w", encoding="utf-8") as log:
        for line in process.stdout:
            log.write(line)
            log.flush()
            if "Start training loop" in line:
                stop.start()
                started = time.monotonic()
            elif found := re.search(r"Step (\d+)/.* bsz: *\d+/ *(\d+)/.*/ *(\d+) tok/s; *(\d+) sec", line):
                reports.append([int(number) for number in found.groups()])
                print(line, end="", flush=True)
            elif found := re.search(r"Validation perplexity: (\S+)", line):
                validations[(len(validations) + 1) * arguments.every] = float(found[1])
                print(line, end="", flush=True)
            elif found := re.search(r"Saving checkpoint .*_step_(\d+)\.pt", line):
                checkpoints.append(int(found[1]))
            elif found := re.search(r"\* number of parameters: (\d+)", line):
                parameters = int(found[1])
    stop.cancel()
    process.wait()
    minutes = (time.monotonic() - started) / 60
    if not checkpoints or not started or minutes < arguments.minutes:
        sys.exit(f"error: training ended early or before its first checkpoint; see {output}/train.log")
    return {
        "minutes": round(minutes, 2),
        "steps": reports[-1][0],
        "checkpoints": checkpoints,
        "validation_perplexity": validations,
        "parameters": parameters,
        "target_tokens_per_second": round(sum(report[1] * 10 for report in reports) / reports[-1][3]),
        "target_tokens_per_second_median_between_validations": statistics.median(report[2] for report in reports),
        "threads": torch.get_num_threads(),
        "huge_pages": os.environ.get("THP_MEM_ALLOC_ENABLE", "0"),
    }


def choose_candidates(output: Path, training: dict[str, Any]) -> dict[str, Path]:
    """The checkpoint with the lowest validation perplexity, the last one, and averages of the last few."""
    # The signal may arrive while the last checkpoint is being written: one that does not load is not a candidate.
    steps = [step for step in training["checkpoints"] if zipfile.is_zipfile(output / f"model_step_{step}.pt")]
    best = min(steps, key=lambda step: training["validation_perplexity"][step])
    candidates = {f"best step {best}": output / f"model_step_{best}.pt"}
    if steps[-1] != best:
        candidates[f"last step {steps[-1]}"] = output / f"model_step_{steps[-1]}.pt"
    for count in AVERAGES:
        if count <= len(steps):
            target = output / f"average_{count}.pt"
            average([output / f"model_step_{step}.pt" for step in steps[-count:]], target)
            candidates[f"average of last {count}"] = target
    return candidates


def average(checkpoints: list[Path], target: Path) -> None:
    """Write the plain mean of the weights of several checkpoints as one checkpoint.

    onmt_average_models is not used: it averages in place, so tied embeddings, one storage under three names, are
    averaged three times over and come out as something other than the mean.
    """
    import torch

    loaded = [torch.load(path, map_location="cpu", weights_only=False) for path in checkpoints]
    means = {
        part: {name: torch.stack([weights[part][name] for weights in loaded]).mean(0) for name in loaded[0][part]}
        for part in ("model", "generator")
    }
    torch.save({"vocab": loaded[0]["vocab"], "opt": loaded[0]["opt"], "optim": None, **means}, target)


def translate(arguments: argparse.Namespace, checkpoint: Path, name: str, split: str) -> dict[str, Any]:
    """Translate one split with beam 4 and score it as it stands in the corpus, words between blanks."""
    import sacrebleu
    import sentencepiece

    output = arguments.output
    stem = output / f"{split}.{name.replace(' ', '_')}"
    pieces, text = Path(f"{stem}.pieces"), Path(f"{stem}.{TARGET}")
    started = time.monotonic()
    command = [
        Path(sys.prefix) / "bin" / "onmt_translate", "-gpu", "-1", "-batch_size", "64",
        "-model", checkpoint, "-src", output / f"{split}.{SOURCE}", "-output", pieces,
        "-beam_size", "4", "-length_penalty", "avg", "-alpha", "1", "-max_length_ratio", "2",
    ]  # fmt: skip
    with Path(f"{stem}.log").open("w", encoding="utf-8") as log:
        done = subprocess.run(command, env=ENVIRONMENT, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"error: onmt_translate failed with status {done.returncode}; see {stem}.log")
    seconds = time.monotonic() - started
    subwords = sentencepiece.SentencePieceProcessor(model_file=f"{output}/subwords.model")
    translations = subwords.decode([line.split(" ") for line in read_lines(pieces)])
    write_lines(text, translations)
    references = read_lines(arguments.corpus / f"{split}.{TARGET}")
    if len(translations) != len(references):
        sys.exit(f"error: {len(translations)} translations for {len(references)} references; see {stem}.log")
    # The text is tokenised already: force silences the warning about that.
    bleu, chrf = sacrebleu.BLEU(tokenize="none", force=True), sacrebleu.CHRF()
    return {
        "bleu": round(bleu.corpus_score(translations, [references]).score, 2),
        "bleu_signature": str(bleu.get_signature()),
        "chrf": round(chrf.corpus_score(translations, [references]).score, 2),
        "chrf_signature": str(chrf.get_signature()),
        "translate_seconds_with_loading": round(seconds, 1),
        "file": text.name,
    }


if __name__ == "__main__":
    main()
