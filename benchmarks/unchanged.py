"""Does a change of the code change what posnmt does? A fixed list of tiny jobs, whose results are compared.

    PYTHONPATH=BEFORE python benchmarks/unchanged.py --out before.json
    PYTHONPATH=AFTER python benchmarks/unchanged.py --out after.json
    python benchmarks/unchanged.py --compare before.json after.json

The jobs (unchanged.yaml) train, translate, score, analyse, export, serve and run a study, on text of the artificial
language pair. They use the command line and the public Python API alone, so that this file runs on the code before and
after a change of anything else. `--only 'train/*'` runs a part of them.

A job's results are texts with names: what is printed and written, without times, speeds, memory, versions and paths.
A tensor is a line with its hash and three sums; pages and pictures are hashes. `--compare` exits with 1 where a job
differs in more than numbers, or by more than 1e-12 of a number, and counts the jobs that are equal to the bit.

It uses one core. Both sides need the same processor and the same packages.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import fnmatch
import functools
import hashlib
import importlib.util
import io
import json
import math
import os
import re
import runpy
import shlex
import signal
import string
import subprocess
import sys
import tempfile
import threading
import traceback
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

TABLES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "TERM": "dumb", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
TOLERANCE = 1e-12
LARGEST = 100_000
"""Characters of the longest text that is kept whole; of longer ones, hashes are kept and numbers have no tolerance."""
VOLATILE = {
    *("seconds", "started", "finished", "time", "command", "bytes", "posnmt", "commit", "machine"),
    *("python", "packages", "versions", "torch", "processor"),
    "weights",  # the hash of a file in which safetensors orders the header at random
}
"""Keys of JSON whose values differ between two runs of the same code, between commits or between machines."""
TIMED = {"done.json", "log.txt", "SHA256SUMS", "cost.csv", "cost.tex", "runs.csv"}
"""Files that hold times, or hashes of such files."""
NOISE = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?"), "<time>"),
    (re.compile(r"\d{8}T\d{6}Z"), "<time>"),
    (re.compile(r"[\d,.]+ (GiB|MiB|MB)\b"), "<memory>"),
    (re.compile(r"\b[\d,.]+ (s|min|seconds|tokens/s)\b"), "<speed>"),
    (re.compile(r"H4sI[\w+/=]+"), "<packed>"),  # results inside pages, with times; results.json has them too
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
]
PASSING = re.compile(
    r"^(?:(?:training|translating|drawing) +\d+%|running  |\d+ of \d+ steps are done).*\n?", re.MULTILINE
)
"""Lines that appear when the clock says so."""
NUMBER = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d+[eE][-+]?\d+")
TENSOR = re.compile(r"tensor:[0-9a-f]+")

Results = dict[str, str]
"""Name of a text -> text."""


# Running


def command(*words: object, stdin: str = "") -> Results:
    """What `python -m posnmt WORDS` prints and its exit status, run in this process so that PyTorch is loaded once."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before, status = (sys.argv, sys.stdin), "0"
    sys.argv, sys.stdin = ["posnmt", *map(str, words)], io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            runpy.run_module("posnmt", run_name="__main__")
    except SystemExit as end:
        status = str(end.code or 0)
    except Exception:  # a traceback is a result as well
        status = traceback.format_exc(limit=0)
    finally:
        sys.argv, sys.stdin = before
    printed, said = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return {"status": status, "stdout": printed, "stderr": PASSING.sub("", said)}


def named(prefix: str, results: Results) -> Results:
    return {f"{prefix}: {name}": text for name, text in results.items()}


def sets(changes: dict[str, Any]) -> list[str]:
    """`--set` for each change of a configuration."""
    return [word for key, value in changes.items() for word in ("--set", f"{key}={json.dumps(value)}")]


@functools.cache
def make(name: str) -> None:
    """What other jobs read: a run that has learnt the dev pairs, or what a line of the table makes."""
    if name.startswith("runs/"):
        changes = TABLES["runs"].get(name[5:], {"model.system": name[5:]})
        done = command("train", "tiny.yaml", "--out", name, *sets(TABLES["learnt"] | changes))
    else:
        done = line_of_table(TABLES["made"][name], "")
    if done["status"] != "0":
        raise RuntimeError(f"{name} was not made: {done}")


def line_of_table(line: str, out: str) -> Results:
    """Run a line, after what it reads is made."""
    words, _, stdin = line.partition(" < ")
    for name in re.findall(r"runs/[\w-]+|[\w.]+", words):
        if name.startswith("runs/") or (name in TABLES["made"] and TABLES["made"][name] != line):
            make(name)
    return command(*shlex.split(words.replace("OUT", out)), stdin=Path(stdin).read_text("utf-8") if stdin else "")


def lines(*of_job: str) -> Results:
    """Lines of the table one after another, and the files of the job's folder at their end."""
    out = f"jobs/{hashlib.sha256(repr(of_job).encode()).hexdigest()[:8]}"
    Path(out).mkdir(parents=True)
    printed = {f"{line}: {part}": text for line in of_job for part, text in line_of_table(line, out).items()}
    return printed | files(out)


# Reading


def timeless(tree: Any) -> Any:
    """A tree of JSON without what differs between two runs of the same code."""
    if isinstance(tree, dict):
        kept = [key for key in tree if key not in VOLATILE and not key.endswith(("_per_second", "_speed"))]
        return {key: timeless(tree[key]) for key in kept}
    return [timeless(each) for each in tree] if isinstance(tree, list) else tree


def tensor_line(name: str, value: Any) -> str:
    """A tensor's shape, type, hash, sum, norm and a sum weighted by places, in which an exchange shows."""
    import torch

    tensor = torch.as_tensor(value).detach().cpu().contiguous()
    content = hashlib.sha256(tensor.view(-1).view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
    flat = torch.nan_to_num(tensor.double().view(-1), posinf=0.0, neginf=0.0)
    sums = flat.sum(), flat.norm(), flat @ torch.arange(len(flat)).double().cos()
    return " ".join(
        [name, str(tuple(tensor.shape)), str(tensor.dtype), f"tensor:{content}", *(f"{x:.17e}" for x in sums)]
    )


def contents(path: Path) -> Iterator[tuple[str, str]]:
    """What is compared of a file: pairs of a name and a text; nothing of what has the time in it, as PDF files have."""
    if path.suffix in {".safetensors", ".npz"}:
        import numpy
        from safetensors.torch import load_file

        tensors = load_file(path) if path.suffix == ".safetensors" else dict(numpy.load(path, allow_pickle=False))
        known = {name: value for name, value in tensors.items() if getattr(value, "dtype", None) is not None}
        found = [line_of(name, value) for name, value in sorted(known.items())]
        yield "", "\n".join(found)
        yield "without names", "\n".join(sorted(line.partition(" ")[2] for line in found))
    elif path.suffix in {".json", ".jsonl"}:
        whole = [path.read_text("utf-8")] if path.suffix == ".json" else path.read_text("utf-8").splitlines()
        yield "", "\n".join(json.dumps(timeless(json.loads(each)), indent=1, ensure_ascii=False) for each in whole)
    elif path.suffix not in {".pdf", ".png", ".sqlite", ".xz", ".argosmodel"}:
        data = path.read_bytes()
        text = data.decode("utf-8", "ignore")
        yield "", text if text.encode() == data else f"sha256 {hashlib.sha256(data).hexdigest()}"


def line_of(name: str, value: Any) -> str:
    """A line of an array of numbers, or of texts."""
    if getattr(value, "dtype", None) is not None and str(value.dtype).startswith(("<U", "object", "|S")):
        return f"{name} {value.shape} {value.tolist()}"
    return tensor_line(name, value)


def files(folder: str) -> Results:
    """The contents of a folder's files, and the names of all; pages of a study have times in them."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(Path(folder).rglob("*")) if path.is_file()}
    visible = {name: path for name, path in paths.items() if not path.name.startswith((".", "events.out"))}
    kept = [name for name in visible if Path(name).name not in TIMED and not re.match(r"(study|copy)/.*\.html", name)]
    found = {f"{name} {part}".strip(): text for name in kept for part, text in contents(visible[name])}
    return {"files": "\n".join(visible), **found}


def plain(value: Any, path: str = "") -> Iterator[str]:
    """The values inside a public value of the Python API, by their names, a line each."""
    if hasattr(value, "dtype"):
        yield tensor_line(path, value)
    elif isinstance(value, (dict, list, tuple)) or hasattr(value, "__dataclass_fields__"):
        if isinstance(value, (list, tuple)):
            value = dict(enumerate(value))
        elif not isinstance(value, dict):
            value = {name: getattr(value, name) for name in value.__dataclass_fields__}
        for name, each in value.items():
            yield from plain(each, f"{path}.{name}")
    else:
        yield f"{path} {value!r}"


# Jobs


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, "utf-8")


def lines_of(name: str) -> list[str]:
    return Path(f"corpus/{name}").read_text("utf-8").splitlines()


def corpus() -> None:
    """Sentences of the artificial pair, with a capital and a full stop, a document for each five; other files."""
    sizes = "--train 200 --dev 24 --test 24 --min-length 3 --max-length 7 --test-max-length 12 --lexicon 60"
    command("condition", "artificial", "--out", "raw", *sizes.split())
    for name in ("train", "dev", "test", "test-long"):
        for side, language in (("source", "en"), ("target", "de")):
            sentences = Path(f"raw/{name}.{side}").read_text("utf-8").splitlines()
            write(f"corpus/{name}.{language}", "".join(f"{each[0].upper()}{each[1:]}.\n" for each in sentences))
        write(f"corpus/{name}.ids", "".join(f"d{number // 5}\n" for number in range(len(sentences))))
    write("long.ids", "".join(f"d{number // 20}\n" for number in range(200)))
    write("tiny.yaml", json.dumps(TABLES["config"]))
    command("prepare", "tiny.yaml")
    write("tiny-study.yaml", json.dumps(TABLES["recipe"]))
    source, target = lines_of("dev.en"), lines_of("dev.de")
    for path, text in TABLES["files"].items():
        write(path, string.Template(text).substitute(dict(zip("abcd", source, strict=False))))
    count = len(Path("input.txt").read_text("utf-8").splitlines())
    write("prefix.txt", "\n".join([*(line.split()[0] for line in target[:2]), *[""] * (count - 2)]) + "\n")
    write("terms.tsv", f"{source[0].split()[1]}\t{target[2].split()[0]}\n{source[1].split()[1]}\tNeu wort\n")
    write("scores.txt", "".join(f"{len(line) / 7}\n" for line in target))
    write("lexicon.tsv", "a\te\t0.9\ni\to\t0.8\nm\tn\t0.2\n")


def trained(name: str, changes: dict[str, Any]) -> Results:
    """A training with changes of the configuration: what it says, and its run folder."""
    out = f"trained/{name.replace(', ', '-').replace(' ', '-')}"
    return command("train", "tiny.yaml", "--out", out, *sets(changes)) | files(out)


def system(name: str) -> Results:
    """Its weights at first (an update by nothing) and after six updates."""
    changes: dict[str, Any] = {"model.system": name, "train.evaluate_every": 6}
    if name == "shared-private":
        changes["subword.pairs"] = {"lexicon": "lexicon.tsv"}
    first = trained(f"{name}-first", {**changes, "train.learning_rate": 1e-300, "train.steps": 1})
    at_first = {part: text for part, text in first.items() if part.startswith(("model.", "status", "stderr"))}
    return named("at first", at_first) | named("after 6 updates", trained(name, changes))


def resumed() -> Results:
    """Three updates and three more; then a training that Ctrl-C stops at some update, which its end does not show."""
    results = trained("parts", {"train.steps": 3})
    results |= named("resumed", command("train", "--resume", "--out", "trained/parts", *sets({"train.steps": 6})))
    results |= named("resumed", files("trained/parts"))
    ended, metrics = threading.Event(), Path("trained/stopped/metrics.jsonl")

    def interrupt() -> None:
        while not ended.wait(0.002):
            if metrics.is_file() and metrics.stat().st_size:
                return os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    stopped = command("train", "tiny.yaml", "--out", "trained/stopped", *sets({"train.steps": 60}))
    ended.set()
    watcher.join()
    command("train", "--resume", "--out", "trained/stopped")
    whole = {part: text for part, text in files("trained/stopped").items() if part.startswith(("model", "metrics"))}
    return results | {"stopped: status": stopped["status"]} | named("stopped and resumed", whole)


def initialised() -> Results:
    """From the weights of a run, by a configuration and by the options of the command."""
    make("runs/relative")
    sizes = {key: value for key, value in TABLES["learnt"].items() if key.startswith("model.")}
    results = trained("init", {**sizes, "train.init": "runs/relative", "train.freeze": ["embeddings"]})
    words = "train --init runs/relative --source corpus/train.en --target corpus/train.de --out trained/further"
    numbers = {"train.steps": 3, "train.precision": "fp32", "train.learning_rate": 1e-3, "train.schedule.warmup": 1}
    return results | named("options", command(*words.split(), *sets(numbers)) | files("trained/further"))


def in_processes(shard: bool) -> Results:
    """Two processes of torchrun on this processor."""
    out, precision = ("trained/sharded", "fp32") if shard else ("trained/two", "fp64")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "posnmt"]
    changes = {"train.precision": precision, "train.shard": shard, "train.steps": 4, "train.batch": 150}
    words = [*launcher, "train", "tiny.yaml", "--out", out, *sets(changes)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return {"status": str(done.returncode), "stdout": done.stdout, **files(out)}


def documents() -> Results:
    """A document of each format."""
    results: Results = {}
    for path in sorted(Path("documents").iterdir()):
        kind = f" --document {path.suffix[1:]}" if path.suffix in {".text", ".wrapped", ".lines"} else ""
        results |= named(path.name, line_of_table(f"translate runs/transformer --input {path}{kind}", ""))
    return results


def python_api() -> Results:
    """What the documented names return."""
    import posnmt

    source, target, found = lines_of("dev.en")[:5], lines_of("dev.de")[:5], {}
    for name in ("relative", "alibi"):
        make(f"runs/{name}")
        model = posnmt.load(f"runs/{name}")
        attention = model.attention(source[0], target[0])
        found[name] = {
            "translate": model.translate(source, beam=3),
            "sample": model.translate(source, sampling={"seed": 3}),
            "hypotheses": model.hypotheses(source, nbest=2, beam=3, alignments=True),
            "score": model.score(list(zip(source, target, strict=True))),
            "encode": model.encode(source[:2]),
            "attention": attention,
            "by distance": attention.encoder.by_distance(),
            "positions": model.positions(source, target),
            "distance bias": model.distance_bias(length=9),
        }
    run = posnmt.train(json.loads(Path("tiny.yaml").read_text()), "trained/python", show_progress=False)
    outputs = {"mine": found["alibi"]["translate"], "copied": source}
    analysis = posnmt.analyse(source, target, outputs, samples=50, processes=1)
    measured = {"results": timeless(analysis.results), "verdict": str(analysis.verdict), "rows": analysis.rows()}
    found |= {"names": {"all": posnmt.__all__}, "train": {"steps": run.record["steps"]}, "analyse": measured}
    values = {f"{name} {part}": "\n".join(plain(value)) for name, each in found.items() for part, value in each.items()}
    return values | named("train", files("trained/python"))


def ask(url: str, fields: dict[str, Any] | None = None) -> str:
    """Status, warning and answer of a GET, or of a POST of JSON."""
    body = None if fields is None else json.dumps(fields).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    try:
        answer: Any = urllib.request.urlopen(request, timeout=120)  # noqa: S310
    except urllib.error.HTTPError as refusal:
        answer = refusal
    with answer:
        status, text = f"{answer.status} {answer.headers.get('X-Posnmt-Warning')}", answer.read().decode("utf-8")
    is_json = answer.headers.get_content_type() == "application/json"
    return f"{status}\n{json.dumps(timeless(json.loads(text)), indent=1) if is_json else text}"


def served() -> Results:
    """A server of two models: its description, and answers of each interface."""
    make("runs/transformer")
    make("runs/relative")
    words = "-m posnmt serve --port 0 one=runs/transformer two=runs/relative --languages two=en-fr"
    server = subprocess.Popen([sys.executable, *words.split()], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()  # type: ignore[union-attr]
        return {" ".join(map(str, request)): ask(url + request[0], *request[1:]) for request in TABLES["requests"]}
    finally:
        server.terminate()
        server.wait(60)


def helped() -> Results:
    """The help of every command, to any depth."""
    results: Results = {}
    waiting: list[list[str]] = [[]]
    while waiting:
        words = waiting.pop()
        page = results[" ".join(["posnmt", *words])] = command(*words, "--help")["stdout"]
        listed = page.partition("\nCommands:\n")[2]
        waiting += [[*words, name] for name in re.findall(r"^  (\S+)", listed, re.MULTILINE)]
    return results


def jobs() -> dict[str, Callable[[], Results]]:
    """Name -> what it does, for what the tables have and for each system and recipe that the commands list."""
    search = "translate runs/transformer --input input.txt "
    recipes = re.findall(r"^(\S+)", command("study", "list")["stdout"], re.MULTILINE)
    table: dict[str, Callable[[], Results]] = {"help": helped, "corpus": lambda: files("raw")}
    for name in json.loads(command("systems", "--json")["stdout"]):
        table[f"system/{name}"] = functools.partial(system, name)
    for name, changes in TABLES["trainings"].items():
        table[f"train/{name}"] = functools.partial(trained, name, changes)
    table |= {"train/resumed": resumed, "train/init": initialised}
    table |= {f"train/{name}": functools.partial(in_processes, name == "sharded") for name in ("two", "sharded")}
    for name, options in TABLES["searches"].items():
        table[f"translate/{name}"] = functools.partial(lines, search + options)
    for name, some in TABLES["commands"].items():
        table[name] = functools.partial(lines, *([some] if isinstance(some, str) else some))
    for name in recipes:
        at = f"{name} --scale smoke --out OUT"
        plan = (f"study plan {at} --speed 3000", f"study run {at} --minutes 0.000001", "study status --out OUT")
        table[f"study/{name}"] = functools.partial(lines, *plan)
    return table | {"documents": documents, "python": python_api, "serve": served}


# The file of results, and the comparison


def tidy(name: str, text: str, places: Iterable[tuple[str, str]]) -> str:
    """A text without places and times; of pages, pictures and very long ones the hash."""
    for place, instead in places:
        text = text.replace(place, instead)
    for pattern, instead in NOISE:
        text = pattern.sub(instead, text)
    whole = len(text) <= LARGEST and not name.endswith((".svg", ".html"))
    return text if whole else f"sha256 {hashlib.sha256(text.encode()).hexdigest()}, {text.count(chr(10))} lines"


def run_jobs(wanted: str) -> dict[str, Results]:
    """The results of the jobs, run in a new folder, with the package that Python finds first."""
    import torch

    torch.set_num_threads(1)
    tree = Path(importlib.util.find_spec("posnmt").origin).parents[1]  # type: ignore[union-attr, arg-type]
    git = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout[:12] or "no commit"
    results: dict[str, Results] = {}
    with tempfile.TemporaryDirectory(prefix="unchanged-") as folder, contextlib.chdir(folder):
        os.environ["POSNMT_CACHE"] = f"{folder}/cache"
        places = [(folder, "<work>"), (str(tree), "<tree>"), (sys.prefix, "<python>"), (commit, "<commit>")]
        corpus()
        for name, job in jobs().items():
            if fnmatch.fnmatch(name, wanted):
                results[name] = {part: tidy(part, text, places) for part, text in job().items()}
                print(f"{name}: {len(results[name])} texts", file=sys.stderr)
    print(f"{len(results)} jobs, {sum(os.times()[:4]):.0f} s of one core", file=sys.stderr)
    return results


def near(one: str, other: str) -> bool:
    """Whether two texts differ by nothing but the rounding of numbers."""
    one, other = (TENSOR.sub("tensor", text) for text in (one, other))
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in pairs)


def compare(one: dict[str, Results], other: dict[str, Results]) -> tuple[list[str], bool]:
    """What differs, job by job, then a line that counts; and whether nothing differs but by rounding."""
    said, exact, rounded = [], 0, []
    for job in sorted(one.keys() | other.keys()):
        a, b = one.get(job, {}), other.get(job, {})
        differ = [part for part in sorted(a.keys() | b.keys()) if a.get(part) != b.get(part)]
        far = [part for part in differ if part not in a or part not in b or not near(a[part], b[part])]
        exact += not differ
        rounded += [job] if differ and not far else []
        for part in far:
            said.append(f"{job}: {part}")
            texts = (side.get(part, "(nothing)").splitlines() for side in (a, b))
            said += [f"    {line[:200]}" for line in list(difflib.unified_diff(*texts, lineterm="", n=0))[2:10]]
    same = not said
    total = len(one.keys() | other.keys())
    said.append(
        f"{exact} of {total} jobs are equal to the bit, {len(rounded)} but for rounding {', '.join(rounded)}".strip()
    )
    return said, same


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="the file of results to write")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of the jobs' names")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"), help="files of results")
    given = parser.parse_args()
    if given.compare:
        said, same = compare(*(json.loads(path.read_text("utf-8"))["results"] for path in given.compare))
        print("\n".join(said))
        sys.exit(not same)
    if given.out is None:
        parser.error("name --out or --compare")
    os.environ.update(ENVIRONMENT)
    out, results = given.out.resolve(), run_jobs(given.only)
    digests = {job: hashlib.sha256(json.dumps(each).encode()).hexdigest() for job, each in results.items()}
    out.write_text(json.dumps({"digests": digests, "results": results}, indent=1, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main()
