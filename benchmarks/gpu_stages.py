"""The stages of benchmarks/gpu.py: each yields what it finds, line by line, and every line is written at once.

python benchmarks/gpu_stages.py NAME --lines FILE.jsonl --work FOLDER [--tiny]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpu_cache import KEY

Line = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
NEEDED = (
    "numpy", "torch", "triton", "lightning_fabric", "pydantic", "sentencepiece", "sacrebleu", "safetensors", "pyarrow",
    "yaml", "filelock", "rich", "click", "pytest", "hypothesis",
)  # fmt: skip
DISTRIBUTIONS = {"yaml": "PyYAML", "lightning_fabric": "lightning-fabric"}
"""Name of a module -> that of the package that has it, where they differ."""
SEEDS = (1, 2, 3)
FAMILIES = (
    "transformer",
    "learned",
    "relative",
    "rope",
    "t5-bias",
    "cope",
    "transformer-xl",
    "rnn",
    "mpr-head",
    "re-both",
)
SEARCHING = ("graphs", "waits", "device")
"""Tests of search that need a GPU."""
GRAPHED = ("transformer", "relative", "rope", "rnn")
VOCABULARY = 8004


def environment(work: Path, tiny: bool) -> Iterator[Line]:
    """Versions, packages that are missing, the device, and whether compiled kernels that were brought can be used."""
    from posnmt.base.version import version_of

    yield {"python": platform.python_version(), "processor": platform.processor() or platform.machine()}
    for name in NEEDED:
        try:
            importlib.import_module(name)
            yield {"package": name, "version": version_of(DISTRIBUTIONS.get(name, name))}
        except ImportError as error:
            yield {"package": name, "missing": str(error)}
    import torch
    from triton.runtime.cache import triton_key

    key = Path(os.environ.get("TRITON_CACHE_DIR", "")) / KEY
    if key.exists():
        yield {"compiled_kernels": "of this Triton" if key.read_text() == triton_key() else "of another Triton"}
    device = device_of(tiny)
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        yield {"device": about.name, "memory_gib": about.total_memory / 2**30, "cuda": torch.version.cuda}


def ceilings(work: Path, tiny: bool) -> Iterator[Line]:
    """What the device reaches: products and copies."""
    import torch

    device = device_of(tiny)
    size = 128 if tiny else 8192
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.randn(size, size, device=device, dtype=dtype)
        seconds = timed(lambda a=a: a @ a, device, 5)
        yield {"product": size, "type": str(dtype), "tflops": 2 * size**3 / seconds / 1e12}
    data = torch.empty(size * size * 4, device=device)
    seconds = timed(data.clone, device, 5)
    yield {"copy_gib_per_second": 2 * data.numel() * 4 / seconds / 2**30}


def tests(work: Path, tiny: bool) -> Iterator[Line]:
    """The tests of the kernels and of search on a GPU: a line for each as it ends, several at once where pytest can."""
    work.mkdir(parents=True, exist_ok=True)
    outcomes = work / "outcomes.jsonl"
    outcomes.unlink(missing_ok=True)
    searching = [name for each in SEARCHING if (ROOT / (name := f"tests/translate/test_{each}.py")).exists()]
    chosen = [searching[0], "-k", "refused"] if tiny else [*kernel_tests(), *searching]
    several = ["-n", "6"] if not tiny and importlib.util.find_spec("xdist") else []
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "gpu_outcomes", *several, *chosen]
    places = os.pathsep.join([str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": places, "OUTCOMES": str(outcomes)}
    process = subprocess.Popen(words, cwd=ROOT, env=environment)
    counts: Counter[str] = Counter()
    for line in lines_of(outcomes, process):
        counts[line["outcome"]] += 1
        yield line
    yield {"status": process.returncode, **counts}


def lines_of(path: Path, process: subprocess.Popen[Any]) -> Iterator[Line]:
    """The lines of a file, as they come, until the process that writes it has ended."""
    read, ended = 0, False
    while not ended:
        ended = process.poll() is not None
        text = path.read_text(encoding="utf-8")[read:] if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        read += len(whole)
        yield from map(json.loads, whole.splitlines())
        time.sleep(0 if ended else 0.25)


def kernel_tests() -> list[str]:
    """The files with tests of kernels."""
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").glob("*/test_*kernel*.py"))]


def gradients(work: Path, tiny: bool) -> Iterator[Line]:
    """Loss and gradients of a system of each family against float64 on the CPU, in fp32 and bf16.

    Medians of `SEEDS`: where rounding moves a single input of a ReLU across 0, gradients differ by a thousand times
    their rounding. For `learned` and seed 1 one is 2e-7 from 0, and the gradient 1.8e-4 from that with it beyond 0.
    """
    for system in FAMILIES[: 2 if tiny else None]:
        found = [differences(system, seed, device_of(tiny)) for seed in SEEDS]
        for precision in ("fp32", "bf16"):
            each = [of_seed[precision] for of_seed in found]
            middle = {key: statistics.median(of[key] for of in each) for key in ("loss", "gradient")}
            yield {"system": system, "precision": precision, **middle, "gradients": [of["gradient"] for of in each]}


def differences(system: str, seed: int, device: Any) -> dict[str, dict[str, float]]:
    """Of loss and gradients of a new system from float64, relative to it, in each precision."""
    import torch

    from posnmt.training.loss import TrainingLoss
    from posnmt.translate.device import in_fp32

    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(4, 200, (4, 30), generator=generator)
    lengths = torch.tensor([30, 22, 9, 3])
    exact = TrainingLoss(model_of(system, "tiny", 204, seed, dropout=0.0), 0.1).double()
    loss, _ = exact(source, lengths, source, source)
    loss.backward()
    found = {}
    for precision in ("fp32", "bf16"):
        loss_of = TrainingLoss(model_of(system, "tiny", 204, seed, dropout=0.0), 0.1).to(device)
        with in_fp32(device):
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                rounded, _ = loss_of(*(each.to(device) for each in (source, lengths, source, source)))
            rounded.backward()
        pairs = [
            (one.grad.cpu().double(), other.grad)
            for one, other in zip(loss_of.parameters(), exact.parameters(), strict=True)
            if one.grad is not None and other.grad is not None
        ]
        difference = sum((one - other).square().sum() for one, other in pairs) ** 0.5
        norm = sum(other.square().sum() for _, other in pairs) ** 0.5
        found[precision] = {"loss": abs(rounded.item() / loss.item() - 1), "gradient": float(difference / norm)}
    return found


def run(work: Path, tiny: bool) -> Iterator[Line]:
    """A real training through the command line: stopped half way, resumed, and used to translate."""
    updates, size = (12, "tiny") if tiny else (200, "small")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    made = ["--train", "300" if tiny else "20000", "--dev", "20", "--test", "40"]
    posnmt("condition", "artificial", "--out", str(work / "pair"), *made)
    corpora = {
        name: {side: str(work / "pair" / f"{name}.{side}") for side in ("source", "target")}
        for name in ("train", "dev")
    }
    train = {
        "steps": updates, "batch": 512 if tiny else 8192, "learning_rate": 1e-3, "schedule": {"warmup": 50},
        "evaluate_every": updates, "log_every": 2, "dev_bleu": False, "best_by": "perplexity",
    }  # fmt: skip
    model = {"system": "relative", "size": size, "tie_embeddings": "all"}
    config = {"data": corpora, "subword": {"vocabulary": 300}, "model": model, "train": train}
    (work / "config.yaml").write_text(json.dumps(config))
    words = command("train", str(work / "config.yaml"), "--out", str(work / "run"))
    began = time.monotonic()
    first = subprocess.Popen(words, cwd=ROOT)
    metrics = work / "run" / "metrics.jsonl"
    while first.poll() is None and steps_in(metrics) < updates // 2:
        time.sleep(0.1)
    if first.poll() is None:
        first.send_signal(signal.SIGINT)
    status = first.wait()
    yield {"stopped_at": steps_in(metrics), "status": status, "seconds": time.monotonic() - began}
    if status:
        posnmt("train", "--out", str(work / "run"), "--resume")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    yield {
        "losses": [[line["step"], line["loss"]] for line in lines if line["kind"] == "train"][:: max(1, updates // 20)]
    }
    yield {"speeds": [line["target_tokens_per_second"] for line in lines if line["kind"] == "train"][-5:]}
    options = ["--input", str(work / "pair" / "test.source"), "--output", str(work / "output")]
    posnmt("translate", str(work / "run"), *options)
    from sacrebleu.metrics import BLEU

    sides = [(work / name).read_text(encoding="utf-8").splitlines() for name in ("output", "pair/test.target")]
    yield {"bleu": BLEU(force=True).corpus_score(sides[0], [sides[1]]).score, "sentences": len(sides[0])}


def compiled(work: Path, tiny: bool) -> Iterator[Line]:
    """The first updates with compiled layers, which compile them for `step`, and their losses beside one without."""
    chosen = [
        "relative/new/eager",
        *(f"{system}/new/compiled" for system in ("relative", "transformer", "rope", "alibi")),
    ]
    yield from steps("--seconds", "0", "--combinations", *chosen[: 1 if tiny else None], tiny=tiny)


def step(work: Path, tiny: bool) -> Iterator[Line]:
    """The combinations of gpu_step.py."""
    chosen = ["--combinations", "relative/new/eager", "transformer/new/eager", "--seconds", "0"] if tiny else []
    yield from steps("--limit", "140", *chosen, tiny=tiny)


def profile(work: Path, tiny: bool) -> Iterator[Line]:
    """The longest kernels of an update."""
    for layers in ("eager",) if tiny else ("eager", "compiled"):
        yield from steps("--profile", f"relative/new/{layers}", tiny=tiny)


def steps(*words: str, tiny: bool) -> Iterator[Line]:
    """The lines of gpu_step.py."""
    for line in printed("gpu_step.py", *words, *(["--tiny"] if tiny else [])):
        yield json.loads(line) if line.startswith("{") else {"printed": line}


def printed(script: str, *words: str) -> Iterator[str]:
    """The lines that a script beside this one prints; it must succeed."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from (line.rstrip() for line in process.stdout if line.strip())
    if process.returncode:
        sys.exit(process.returncode)


def agreement(work: Path, tiny: bool) -> Iterator[Line]:
    """Whether greedy search writes the same with CUDA graphs as without."""
    device = device_of(tiny)
    for system in GRAPHED[: 1 if tiny else None]:
        found = []
        for graphed in (False, device.type == "cuda"):
            search, translator = searching(system, 4096, graphed, 8 if tiny else 200, device, tiny)
            found.append([[list(each.tokens) for each in hypotheses] for hypotheses in search()])
        same = sum(one == other for one, other in zip(*found, strict=True))
        yield {"system": system, "sentences": len(found[0]), "same": same, "notes": translator.notes}


def graphs(work: Path, tiny: bool) -> Iterator[Line]:
    """The speed of greedy search with and without CUDA graphs, with batches of 4,096 and 65,536 tokens."""
    device = device_of(tiny)
    count = 8 if tiny else 1000
    for system in GRAPHED[: 1 if tiny else None]:
        for batch in (65536, 4096):
            for graphed in (False,) if device.type == "cpu" else (False, True):
                search, translator = searching(system, batch, graphed, count, device, tiny)
                seconds = timed(search, device, 1, 3 if graphed else 1)  # a step is recorded when it occurs again
                yield {
                    "system": system, "batch": batch, "graphs": graphed, "sentences_per_second": count / seconds,
                    "notes": translator.notes,
                }  # fmt: skip


def searching(
    system: str, batch: int, graphed: bool, count: int, device: Any, tiny: bool
) -> tuple[Callable[[], list[Any]], Any]:
    """Greedy search for translations of so many sentences, and its translator."""
    import torch

    from posnmt.config.schema import Decode
    from posnmt.translate.subwords import translate_subwords
    from posnmt.translate.translator import Translator

    generator = torch.Generator().manual_seed(1)
    sources = [torch.randint(4, VOCABULARY, (10 + row % 20,), generator=generator).tolist() for row in range(count)]
    model = model_of(system, "tiny" if tiny else "base", VOCABULARY).eval()
    with torch.no_grad():
        model.output.bias[3] = -100.0  # nothing ends by itself: every system writes as much
    precision = "fp32" if tiny else "bf16"
    translator = Translator([model], None, device, precision, cuda_graphs=graphed)  # type: ignore[arg-type]
    decode = Decode(beam=1, max_ratio=0.001, max_extra=20, batch=batch)

    def search() -> list[Any]:
        with torch.autocast(device.type, torch.bfloat16, enabled=translator.narrow):
            return translate_subwords(translator.searched, sources, decode, device, translator.workers, scored=False)

    return search, translator


def attention(work: Path, tiny: bool) -> Iterator[Line]:
    """The table of benchmarks/gpu_attention.py, row by row."""
    chosen = ["--smoke"] if tiny else ["--lengths", "64", "512", "2048", "--repeats", "3", "--tiles", "64x64x8x3"]
    for row in printed("gpu_attention.py", *chosen):
        yield {"row": row}


def sanitizer(work: Path, tiny: bool) -> Iterator[Line]:
    """One test of the kernel under compute-sanitizer, where there is one."""
    program = shutil.which("compute-sanitizer", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if program is None:
        yield {"sanitizer": "not there"}
        return
    test = "tests/model/test_shaw_kernel.py::test_a_query_that_sees_no_key_gets_zeros"
    words = [program, "--error-exitcode", "9", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    yield {"sanitizer": program, "status": done.returncode, "output": done.stdout[-1500:]}


def device_of(tiny: bool) -> Any:
    """The GPU; with tiny sizes the CPU, also where there is a GPU."""
    import torch

    if not tiny and not torch.cuda.is_available():
        sys.exit("no GPU is here; --tiny shows without one that it runs")
    return torch.device("cpu" if tiny else "cuda")


def model_of(system: str, size: str, vocabulary: int, seed: int = 1, **model: Any) -> Any:
    """A new model."""
    import torch

    from posnmt.model.registry import build_model
    from posnmt.run.resolve import from_tree

    tree = {"data": {"train": {"source": "-", "target": "-"}}, "train": {"steps": 1, "dev_bleu": False}}
    section = {"system": system, "size": size, "tie_embeddings": "all", **model}
    torch.manual_seed(seed)
    return build_model(from_tree({**tree, "model": section}).model, vocabulary, vocabulary)


def timed(work: Callable[[], object], device: Any, times: int, warm_up: int = 1) -> float:
    """Mean seconds of `work`, after some calls to warm up."""
    import torch

    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for _ in range(warm_up):
        work()
    wait()
    began = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - began) / times


def command(*words: str) -> list[str]:
    """A command line of posnmt."""
    return [sys.executable, "-m", "posnmt", *words]


def posnmt(*words: str) -> None:
    """Run a command of posnmt; it must succeed."""
    subprocess.run(command(*words), cwd=ROOT, check=True)


def steps_in(metrics: Path) -> int:
    """The last update that a training has logged; 0 before the first."""
    try:
        lines = metrics.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return 0
    return int(json.loads(lines[-1])["step"]) if lines else 0


STAGES: dict[str, Callable[[Path, bool], Iterator[Line]]] = {
    each.__name__: each
    for each in (
        environment,
        tests,
        gradients,
        run,
        compiled,
        agreement,
        sanitizer,
        ceilings,
        step,
        profile,
        graphs,
        attention,
    )
}


def main() -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(STAGES))
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    if arguments.tiny:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with arguments.lines.open("w", encoding="utf-8") as lines:
        for line in STAGES[arguments.name](arguments.work.resolve(), arguments.tiny):
            lines.write(json.dumps(line) + "\n")
            lines.flush()


if __name__ == "__main__":
    main()
