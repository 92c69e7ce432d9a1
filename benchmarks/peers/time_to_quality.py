"""Time to quality: what posnmt and a tuned fairseq learn in equal time, by the protocol of time_to_quality.yaml.

    python benchmarks/peers/time_to_quality.py speed --data DATA --environments FOLDER --out FOLDER [--turns 2]
    python benchmarks/peers/time_to_quality.py train --data DATA --environments FOLDER --out FOLDER [--jobs 2] [--gpu]
    python benchmarks/peers/time_to_quality.py table --out FOLDER

`speed` measures the seconds of an update in turn, on an idle machine, into OUT/speed.json. They say how many updates
fit into each budget. `train` then makes trainings of so many updates, which may run at the same time, and on another
machine or a GPU, as none is timed: each leaves OUT/CORPUS/NAME.json and is not repeated. `table` prints the tables.
DATA holds the corpora. Work that can be made again is in OUT/work. On a GPU, FOLDER/fairseq/bin/python starts a Python
that finds fairseq.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import yaml
from opennmt_tanaka import write_lines
from quality import FAIRSEQ_DEV, fairseq_outputs
from speed_data import SOURCE, TARGET, UNKNOWN, write_data
from speed_environment import prepare_environment
from speed_peers import PEERS, posnmt
from speed_trainer import REPORT, Job, TrainingFailed, run, speed

from posnmt.config.schema import Config
from posnmt.data.prepare import prepare
from posnmt.data.store import Store
from posnmt.data.subword import UNK
from posnmt.run import defaults
from posnmt.training.build import batch_plan, training_pairs
from posnmt.training.choose import Written, for_training
from posnmt_position.processor import processor

PROTOCOL: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
EVALUATIONS = 20
"""Of dev in a training of the longest budget; it ends with one, and so do the shorter budgets."""
WARMUP = 300
"""Of inverse square root; other schedules have posnmt's rule."""
LEFT_OUT = 10
"""First updates of a training whose speed is measured, which do not count."""
FAIRSEQ_BATCHES = re.compile(r"grouped total_num_itrs = (\d+)")
POSNMT = [sys.executable, "-m", "posnmt"]


@dataclass(frozen=True)
class Recipe:
    """How one toolkit trains: fairseq with a batch, a rate and a schedule, or posnmt with settings."""

    toolkit: str
    name: str
    settings: tuple[str, ...] = ()
    batch: int = 0
    rate: float = 0.0
    schedule: str = ""

    @property
    def timed(self) -> str:
        """The name of the measurement of its speed, which the rate and the schedule do not change."""
        return f"fairseq {self.batch}" if self.toolkit == "fairseq" else self.name


def fairseq_recipes() -> list[Recipe]:
    """The trials of fairseq."""
    return [
        Recipe("fairseq", f"fairseq-{batch}-{rate:g}-{schedule}", (), batch, rate, schedule)
        for batch, rate, schedule in product(*(PROTOCOL["fairseq"][name] for name in ("batch", "rate", "schedule")))
    ]


def posnmt_recipes() -> list[Recipe]:
    """posnmt's defaults, and the same with sinusoids."""
    return [Recipe("posnmt", name, tuple(settings)) for name, settings in PROTOCOL["posnmt"].items()]


def timed_recipes() -> list[Recipe]:
    """One recipe for each measurement of speed."""
    batches = PROTOCOL["fairseq"]["batch"]
    same = [
        Recipe("posnmt", f"same {batch}", (*PROTOCOL["same"], f"train.batch={batch}"), batch=batch) for batch in batches
    ]
    peers = [Recipe("fairseq", f"fairseq {batch}", (), batch, 1e-3, "inverse-square-root") for batch in batches]
    return [*posnmt_recipes(), *(each for pair in zip(same, peers, strict=True) for each in pair)]


@dataclass(frozen=True)
class Corpus:
    """One corpus of the protocol.

    Attributes:
        data: the folder of all corpora.
        work: the folder of what is made from this one.
    """

    name: str
    data: Path
    work: Path

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return PROTOCOL["corpora"][self.name]["source"], PROTOCOL["corpora"][self.name]["target"]

    def made(self) -> None:
        """Write its texts, evenly spread lines of the corpus, and a configuration that leaves the rest to posnmt."""
        settings = PROTOCOL["corpora"][self.name]
        (self.work / "text").mkdir(parents=True, exist_ok=True)
        for name, most in (("train", settings.get("train")), ("dev", PROTOCOL["dev"]), ("test", PROTOCOL["test"])):
            for language in self.languages:
                lines = read(self.data / settings["folder"] / f"{name}.{language}")
                write_lines(self.work / "text" / f"{name}.{language}", list(spread(lines, most)))
        sides = dict(zip(("source", "target"), self.languages, strict=True))
        files = {name: {side: f"{name}.{sides[side]}" for side in sides} for name in ("train", "dev")}
        tree = {
            "data": {"root": str(self.work / "text"), "store": str(self.work / "stores"), **files}
            | {f"{side}_language": language for side, language in sides.items()},
            "model": {"size": PROTOCOL["size"]},
            "train": {"average": 1, "dev_bleu": False, "best_by": "perplexity"},
        }
        self.config.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.work / "config.yaml"

    @cached_property
    def completed(self) -> Config:
        """The configuration as posnmt completes it, for a training of any length."""
        return for_training(Written.from_file(self.config, ("train.steps=1000",)), lambda _: None).config

    @cached_property
    def store(self) -> Store:
        """The subwords and pairs that all toolkits have."""
        return prepare(self.completed)

    @property
    def peers(self) -> Path:
        """The same text as other toolkits read it."""
        return self.work / "peers"

    def for_peers(self, environments: Path) -> None:
        """Write the training, dev and test pairs in subwords, and let fairseq prepare them."""
        if (self.peers / "fairseq").exists():
            return
        self.peers.mkdir(exist_ok=True)
        write_data(self.completed, 1, self.peers)
        names = self.store.text.source.subwords.pieces
        names[UNK] = UNKNOWN
        texts = (read(self.work / "text" / f"test.{language}") for language in self.languages)
        for name, encoder, text in zip(
            (SOURCE, TARGET), (self.store.text.source, self.store.text.target), texts, strict=True
        ):
            lines = [" ".join(names[number] for number in row) for row in encoder.encode(text)]
            write_lines(self.peers / f"test.{name}", lines)
        setup = PEERS["fairseq"].setup
        assert setup is not None
        run(setup(self.job(environments, self.peers)), self.work / "setup.log")

    def job(self, environments: Path, folder: Path, **settings: Any) -> Job:
        """A training of fairseq on it."""
        dropout = self.completed.model.dropout
        given = {"updates": 0, "batch": 0, "dropout": dropout, **settings}
        return Job(
            "transformer", PROTOCOL["size"], corpus=self.work, data=self.peers, folder=folder.absolute(),
            environment=environments / "fairseq", **given,
        )  # fmt: skip


def read(path: Path) -> list[str]:
    """The lines of a text, which may be packed."""
    packed = path.with_name(f"{path.name}.xz")
    content = lzma.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return content.decode("utf-8").split("\n")[:-1]


def spread(lines: list[str], most: int | None) -> Iterable[str]:
    """Evenly spread lines, or all."""
    if most is None or most >= len(lines):
        return lines
    return (lines[number * len(lines) // most] for number in range(most))


class Speeds:
    """Measured seconds of updates, in turns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"turns": []}

    def seconds(self, corpus: str, recipe: Recipe) -> float:
        """Of an update, the median of the turns."""
        found = [turn[corpus][recipe.timed]["seconds"] for turn in self.content["turns"] if corpus in turn]
        return statistics.median(found)

    def updates(self, corpus: str, recipe: Recipe, minutes: float) -> int:
        """How many fit into a budget: a multiple that lets evaluations end every budget."""
        longest = max(PROTOCOL["minutes"])
        every = max(1, int(60 * longest / self.seconds(corpus, recipe) / EVALUATIONS))
        return every * round(EVALUATIONS * minutes / longest)

    def save(self) -> None:
        """Write the file."""
        self.path.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8", newline="\n")


def measure(arguments: argparse.Namespace, corpora: list[Corpus]) -> None:
    """Take turns: in each, every corpus and recipe once, in the same order."""
    speeds = Speeds(arguments.out / "speed.json")
    speeds.content |= {"processor": processor(), "cores": os.cpu_count(), "updates": arguments.updates}
    speeds.content |= {"precision": arguments.precision}
    while len(speeds.content["turns"]) < arguments.turns or not complete(speeds.content["turns"][-1], corpora):
        turns = speeds.content["turns"]
        if not turns or complete(turns[-1], corpora):
            turns.append({})
        for corpus in corpora:
            for recipe in timed_recipes():
                of_corpus = turns[-1].setdefault(corpus.name, {})
                if recipe.name not in of_corpus:
                    of_corpus[recipe.name] = timed(arguments, corpus, recipe)
                    say(f"turn {len(turns)}, {corpus.name}, {recipe.name}: {of_corpus[recipe.name]}")
                    speeds.save()


def complete(turn: dict[str, Any], corpora: list[Corpus]) -> bool:
    """Whether a turn has all its measurements."""
    return all(recipe.name in turn.get(corpus.name, {}) for corpus in corpora for recipe in timed_recipes())


def timed(arguments: argparse.Namespace, corpus: Corpus, recipe: Recipe) -> dict[str, float]:
    """Seconds and real target tokens of a mean update, from the speed of a short training and the number of batches.

    The batches of a short training may be longer or shorter than the others.
    """
    updates = arguments.updates
    with tempfile.TemporaryDirectory(dir=corpus.work) as place:
        folder = Path(place)
        job = corpus.job(arguments.environments, folder, updates=updates, batch=recipe.batch)
        if recipe.toolkit == "fairseq":
            text = run(PEERS["fairseq"].command(job), folder / "log")
            reports, batches = PEERS["fairseq"].reports(job, text), float(FAIRSEQ_BATCHES.findall(text)[0])
        else:
            ends = (f"train.steps={updates}", f"train.log_every={REPORT}", f"train.evaluate_every={updates}")
            settings = posnmt_settings(arguments, recipe, (*ends, "train.dev_pairs=16"))
            train(corpus, folder, settings)
            reports = posnmt(arguments.precision).reports(job, "")
            config = for_training(Written.from_file(corpus.config, settings), lambda _: None).config
            batches = float(batch_plan(config, training_pairs(config.train, corpus.store)).batches_of_a_pass())
    rate, measured = speed(reports, LEFT_OUT)
    split = corpus.store.split("train")
    tokens = (int(split.target_lengths.sum()) + len(split)) / batches
    return {"seconds": round(tokens / rate, 5), "tokens": round(tokens, 1), "tokens_measured": round(measured, 1)}


def posnmt_settings(arguments: argparse.Namespace, recipe: Recipe, settings: tuple[str, ...]) -> tuple[str, ...]:
    """What differs from the configuration of a corpus."""
    return (f"train.precision={arguments.precision}", *recipe.settings, *settings)


def train(corpus: Corpus, folder: Path, settings: tuple[str, ...]) -> None:
    """posnmt's own command."""
    options = [each for setting in settings for each in ("--set", setting)]
    run([*POSNMT, "train", corpus.config, "--out", folder / "run", *options], folder / "log")


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        updates: all of it.
        every: updates between two evaluations.
        scored: whether it translates test.
    """

    corpus: Corpus
    recipe: Recipe
    minutes: float
    seed: int
    updates: int
    every: int
    scored: bool

    def result(self, out: Path) -> Path:
        """Its file."""
        return out / self.corpus.name / f"{self.recipe.name}.{self.minutes:g}.{self.seed}.json"

    def make(self, arguments: argparse.Namespace) -> None:
        """Train, score test, and write what came out, unless that is there."""
        result = self.result(arguments.out)
        if result.exists():
            return
        result.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.corpus.work) as place:
            folder = Path(place)
            try:
                make = self._fairseq if self.recipe.toolkit == "fairseq" else self._posnmt
                content = make(arguments, folder)
            except TrainingFailed as error:
                shutil.copyfile(folder / "log", result.with_suffix(".log"))
                say(f"{result.name}: {error}")
                return
        content["processor"] = "GPU" if arguments.gpu else processor()
        temporary = result.with_suffix(".partial")
        temporary.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
        temporary.replace(result)
        say(f"{self.corpus.name} {result.stem}: {content['perplexity'][-1]} {content.get('chrf', '')}")

    def _posnmt(self, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
        ends = (f"train.steps={self.updates}", f"train.evaluate_every={self.every}", f"train.seed={self.seed}")
        train(self.corpus, folder, posnmt_settings(arguments, self.recipe, ends))
        lines = map(json.loads, (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        content = curve([(line["step"], line["perplexity"]) for line in lines if line["kind"] == "dev"])
        if self.scored:
            source, target = (self.corpus.work / "text" / f"test.{each}" for each in self.corpus.languages)
            plain = [
                "--checkpoint=last",
                "--beam=1",
                "--precision=fp32",
                "--split=off",
                "--complete=off",
                "--protect=off",
            ]
            places: list[str | Path] = ["--input", source, "--output", folder / "outputs"]
            run([*POSNMT, "translate", folder / "run", *plain, *places], folder / "translate.log")
            content |= scored(read(folder / "outputs"), read(target))
        return content

    def _fairseq(self, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
        recipe = self.recipe
        warmup = WARMUP if recipe.schedule == "inverse-square-root" else defaults.warmup(self.updates)
        job = self.corpus.job(
            arguments.environments, folder, updates=self.updates, batch=recipe.batch, rate=recipe.rate,
            schedule=recipe.schedule, warmup=warmup, seed=self.seed, evaluate_every=self.every, on_gpu=arguments.gpu,
        )  # fmt: skip
        text = run(PEERS["fairseq"].command(job), folder / "log")
        content = curve([(int(each["step"]), float(each["perplexity"])) for each in FAIRSEQ_DEV.finditer(text)])
        if self.scored:
            outputs = self.corpus.store.text.target.decode(fairseq_outputs(job, "test"))
            content |= scored(outputs, read(self.corpus.work / "text" / f"test.{self.corpus.languages[1]}"))
        return content


def curve(points: list[tuple[int, float]]) -> dict[str, Any]:
    """Dev perplexity by updates.

    Raises:
        TrainingFailed: there is none.
    """
    if not points:
        raise TrainingFailed("no perplexity of dev in its log")
    known = dict(points)
    return {"updates": list(known), "perplexity": [round(value, 4) for value in known.values()]}


def scored(outputs: list[str], references: list[str]) -> dict[str, Any]:
    """chrF of greedy translations of test, and the first of them, to be looked at."""
    from sacrebleu.metrics import CHRF

    return {"chrf": round(CHRF().corpus_score(outputs, [references]).score, 3), "outputs": outputs[:30]}


def make_all(arguments: argparse.Namespace, corpora: list[Corpus]) -> None:
    """All trainings: posnmt's and the trials of fairseq, then the best recipes of fairseq with all seeds."""
    speeds = Speeds(arguments.out / "speed.json")
    made = ThreadPoolExecutor(arguments.jobs)
    first = [each for corpus in corpora for each in trials(corpus, speeds)]
    second = [each for corpus in corpora for each in of_posnmt(corpus, speeds)]
    for group in (first, second):
        list(made.map(lambda training: training.make(arguments), group))
    chosen = [each for corpus in corpora for each in best(corpus, speeds, arguments.out)]
    list(made.map(lambda training: training.make(arguments), chosen))


def trials(corpus: Corpus, speeds: Speeds) -> Iterator[Training]:
    """Those of fairseq, the longest first."""
    for minutes in sorted(PROTOCOL["minutes"], reverse=True):
        for recipe in fairseq_recipes():
            if recipe.schedule == "linear" or minutes == max(PROTOCOL["minutes"]):
                updates = speeds.updates(corpus.name, recipe, minutes)
                yield Training(corpus, recipe, minutes, PROTOCOL["seeds"][0], updates, every(updates, minutes), False)


def of_posnmt(corpus: Corpus, speeds: Speeds) -> Iterator[Training]:
    """posnmt's, seed by seed."""
    for seed, recipe in product(PROTOCOL["seeds"], posnmt_recipes()):
        for minutes in sorted((*PROTOCOL["minutes"], *PROTOCOL["sooner"]), reverse=True):
            updates = speeds.updates(corpus.name, recipe, minutes)
            yield Training(corpus, recipe, minutes, seed, updates, every(updates, minutes), True)


def every(updates: int, minutes: float) -> int:
    """Updates between evaluations, such that one ends each shorter budget, too."""
    return updates // round(EVALUATIONS * minutes / max(PROTOCOL["minutes"]))


def best(corpus: Corpus, speeds: Speeds, out: Path) -> Iterator[Training]:
    """The best recipe of fairseq for each budget, with all seeds."""
    for minutes in PROTOCOL["minutes"]:
        found = chosen_recipe(corpus, speeds, out, minutes)
        if found is None:
            say(f"{corpus.name}: not all trials of {minutes} minutes are made")
            continue
        recipe, _ = found
        for seed in PROTOCOL["seeds"]:
            updates = speeds.updates(corpus.name, recipe, minutes)
            named = Recipe("fairseq", f"best-{recipe.name}", (), recipe.batch, recipe.rate, recipe.schedule)
            yield Training(corpus, named, minutes, seed, updates, every(updates, minutes), True)


def chosen_recipe(corpus: Corpus, speeds: Speeds, out: Path, minutes: float) -> tuple[Recipe, float] | None:
    """The recipe with the lowest dev perplexity at a budget's end, and that; none while a trial is missing."""
    found = []
    for recipe in fairseq_recipes():
        longest = minutes if recipe.schedule == "linear" else max(PROTOCOL["minutes"])
        path = Training(corpus, recipe, longest, PROTOCOL["seeds"][0], 0, 0, False).result(out)
        if not path.exists():
            return None
        content = json.loads(path.read_text(encoding="utf-8"))
        at = speeds.updates(corpus.name, recipe, minutes)
        found.append((dict(zip(content["updates"], content["perplexity"], strict=True))[at], recipe))
    perplexity, recipe = min(found, key=lambda each: each[0])
    return recipe, perplexity


def print_tables(arguments: argparse.Namespace, corpora: list[Corpus]) -> None:
    """Speeds, then quality by budget, then the time to a peer's quality."""
    speeds = Speeds(arguments.out / "speed.json")
    turns = speeds.content["turns"]
    print(f"{speeds.content['processor']}, {speeds.content['cores']} cores, {len(turns)} turns")
    batches = PROTOCOL["fairseq"]["batch"]
    names = [recipe.name for recipe in posnmt_recipes()]
    heads = ["corpus", *(f"the same training, {batch:,} tokens: fairseq's time / posnmt's" for batch in batches)]
    heads += [f"seconds of an update, {name}" for name in (*names, *(f"fairseq {each}" for each in batches))]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for corpus in corpora:
        cells = [ratio(turns, corpus.name, f"fairseq {batch}", f"same {batch}") for batch in batches]
        both = [turn[corpus.name] for turn in turns if corpus.name in turn]
        for name in (*names, *(f"fairseq {batch}" for batch in batches)):
            cells.append(f"{statistics.median(turn[name]['seconds'] for turn in both):.3f}")
        print(f"| {corpus.name} | {' | '.join(cells)} |")
    for corpus in corpora:
        print(f"\n{corpus.name}")
        qualities(arguments.out, corpus, speeds)


def ratio(turns: list[dict[str, Any]], corpus: str, peer: str, ours: str) -> str:
    """Seconds of a target token of a peer over those of posnmt, within a turn: median and range."""
    found = [
        (turn[corpus][peer]["seconds"] / turn[corpus][peer]["tokens"])
        / (turn[corpus][ours]["seconds"] / turn[corpus][ours]["tokens"])
        for turn in turns
        if corpus in turn
    ]
    return f"{statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f})"


def qualities(out: Path, corpus: Corpus, speeds: Speeds) -> None:
    """Perplexity and chrF by budget, and the minutes to fairseq's."""
    at: dict[str, dict[float, list[float]]] = {}
    wanted: dict[float, float] = {}
    for minutes in sorted((*PROTOCOL["minutes"], *PROTOCOL["sooner"])):
        groups = {recipe.name: recipe.name for recipe in posnmt_recipes()}
        if minutes in PROTOCOL["minutes"] and (found := chosen_recipe(corpus, speeds, out, minutes)) is not None:
            groups["fairseq"] = f"best-{found[0].name}"
        for name, stem in groups.items():
            results = [
                json.loads(path.read_text(encoding="utf-8"))
                for seed in PROTOCOL["seeds"]
                if (path := out / corpus.name / f"{stem}.{minutes:g}.{seed}.json").exists()
            ]
            if not results:
                continue
            last = [result["perplexity"][-1] for result in results]
            at.setdefault(name, {})[minutes] = last
            chrf = [result["chrf"] for result in results]
            print(f"| {minutes:g} | {stem} | {shown(last)} | {shown(chrf)} |")
            if name == "fairseq":
                wanted[minutes] = statistics.mean(last)
    for name in (recipe.name for recipe in posnmt_recipes()):
        for minutes, quality in wanted.items():
            curves = [
                [(each, values[seed]) for each, values in sorted(at.get(name, {}).items()) if seed < len(values)]
                for seed in range(len(PROTOCOL["seeds"]))
            ]
            needed = [reached(points, quality) for points in curves if points]
            times = ", ".join("not in time" if math.isinf(each) else f"{minutes / each:.2f}" for each in needed)
            print(f"{name} reaches fairseq's {quality:.2f} of {minutes:g} minutes so many times as fast: {times}")


def reached(points: list[tuple[float, float]], quality: float) -> float:
    """The minutes at which a perplexity is reached, between budgets; the first budget if that reaches it."""
    if points[0][1] <= quality:
        return points[0][0]
    for (before, high), (after, low) in pairwise(points):
        if low <= quality < high:
            share = math.log(high / quality) / math.log(high / low)
            return float(before * (after / before) ** share)
    return math.inf


def shown(values: list[float]) -> str:
    """Mean and range."""
    return f"{statistics.mean(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def say(line: str) -> None:
    """A line about how far the benchmark is, on standard error."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["speed", "train", "table"])
    parser.add_argument("--data", type=Path, help="folder of the corpora")
    parser.add_argument("--environments", type=Path, help="folder of the toolkits' environments")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", default=list(PROTOCOL["corpora"]), choices=PROTOCOL["corpora"])
    parser.add_argument("--turns", type=int, default=2, help="of speed (%(default)s)")
    parser.add_argument(
        "--updates", type=int, default=30, help="of each training whose speed is measured (%(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="trainings at the same time (%(default)s)")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="of posnmt (%(default)s)")
    parser.add_argument("--gpu", action="store_true", help="train on the GPU")
    arguments = parser.parse_args()
    arguments.out = arguments.out.absolute()
    corpora = [Corpus(name, arguments.data, arguments.out / "work" / name) for name in arguments.corpora]
    if arguments.command == "table":
        print_tables(arguments, corpora)
        return
    arguments.environments = arguments.environments.absolute()
    if not arguments.gpu:
        prepare_environment(arguments.environments / "fairseq", "constraints-fairseq.txt")
    for corpus in corpora:
        if not corpus.config.exists():
            corpus.made()
        corpus.for_peers(arguments.environments)
    work: dict[str, Callable[[argparse.Namespace, list[Corpus]], None]] = {"speed": measure, "train": make_all}
    work[arguments.command](arguments, corpora)


if __name__ == "__main__":
    main()
