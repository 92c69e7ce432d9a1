"""What the steps of a study do: a function for each kind, which calls the part of posnmt that does the work.

Every corpus is a folder with `source`, `target` and optionally `documents`; a test with swapped words also has
`swapped-SHARE`. The translation of `source` is `output`, and that of `swapped-SHARE` is `output-SHARE`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.config.schema import Config
from posnmt.config.yaml import merge
from posnmt.data.corpus import TextFile, open_text
from posnmt.run.resolve import from_tree
from posnmt.run.run import Run, read_record
from posnmt.study.likelihood import documents_of, lines_of
from posnmt.study.workflow.kind import Context, Kind

if TYPE_CHECKING:
    import numpy as np

    from posnmt.data.text import SideText
    from posnmt.evaluation.analyse.analyse import Analysis
    from posnmt.evaluation.analyse.measure import Resampling

SIDES = ("source", "target")
Cut = Callable[[list[str]], list[str]]
"""Segments lines into words or subwords that are separated by blanks."""


class _Progress(Display):
    """A display that shows its lines in the status of the study."""

    def __init__(self, context: Context) -> None:
        super().__init__(quiet=True)
        self._context = context

    def say(self, message: str) -> None:
        self._context.say(message)

    def show(self, description: str, fraction: float | None, state: str) -> None:
        share = "" if fraction is None else f" {fraction:.0%}"
        self._context.say(f"{description}{share}  {state}")


def _work_folder(context: Context) -> Path:
    """Create an empty working folder, removing that of an earlier attempt."""
    folder = context.folder / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _move_results(context: Context, work: Path, names: dict[str, str]) -> None:
    """Move results from the working folder into the step's folder, and remove the working folder."""
    for old, new in names.items():
        if (work / old).exists():
            place = context.folder / new
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(work / old, place)
    shutil.rmtree(work)


def artificial(context: Context) -> None:
    """Generate the artificial language pair, as `pair` in the folder of the step."""
    from posnmt.corpora.artificial.pairs import command

    work = _work_folder(context)
    command(work / "pair", **context.settings)
    _move_results(context, work, {"pair": "pair"})


def part_of_artificial(context: Context) -> None:
    """Copy one text of the artificial language pair as a corpus, with its alignments."""
    pair, name = context.inputs["artificial"] / "pair", context.settings["name"]
    for part in (*SIDES, "align"):
        path = pair / f"{name}.{part}"
        if not path.exists():
            raise UserError(f"the artificial language pair has no {name}", pair, "set test_max_length above max_length")
        shutil.copyfile(path, context.folder / part)


def corpus(context: Context) -> None:
    """Concatenate one or several texts, decompressed; of each its lines, or these joined by documents."""
    work = _work_folder(context)
    texts: list[dict[str, Path]] = []
    pieces: list[dict[str, Any]] = []
    for number, piece in enumerate(context.settings["texts"]):
        text = _parts(context, str(number))
        if "join" in piece:
            text, piece = _joined_lines(text, piece, work / str(number)), {"take": piece["take"]}
        texts.append(text)
        pieces.append(piece)
    lines: dict[str, list[int]] = {}
    for part in (*SIDES, "documents"):
        if all(part in text for text in texts):
            with (context.folder / part).open("wb") as out:
                lines[part] = [
                    _write_some(out, text[part], piece["take"], piece.get("lines"))
                    for text, piece in zip(texts, pieces, strict=True)
                ]
    if any(counts != lines["source"] for counts in lines.values()):
        counted = ", ".join(f"{part} has {sum(counts):,} lines" for part, counts in lines.items())
        raise UserError(f"the texts of a corpus are not aligned: {counted}", texts[0]["source"], "give aligned files")
    shutil.rmtree(work)


def _joined_lines(text: dict[str, Path], piece: dict[str, Any], work: Path) -> dict[str, Path]:
    """Part -> file of a text's consecutive lines joined, without document ids, written to a new folder `work`."""
    from posnmt.corpora.conditions.join import join as write_joined
    from posnmt.corpora.conditions.text import parallel_text

    work.mkdir()
    for part, path in text.items():
        with (work / part).open("wb") as out:
            _write_some(out, path, None, piece.get("lines"))
    documents = work / "documents" if "documents" in text else None
    pairs = parallel_text(work / "source", work / "target", documents=documents)
    write_joined(work / "joined", pairs, piece["join"], drop_rest=True)
    return {side: work / "joined" / f"joined.{side}" for side in SIDES}


def _parts(context: Context, number: str) -> dict[str, Path]:
    """Part -> file of one text of a corpus: either fetched by another step or a file of the user's."""
    if number in context.inputs:
        folder = context.inputs[number]
        return {part: folder / part for part in (*SIDES, "documents") if (folder / part).exists()}
    return {
        role.removeprefix(f"{number}."): path for role, path in context.files.items() if role.startswith(f"{number}.")
    }


def _write_some(out: BinaryIO, path: Path, take: int | None, span: list[int] | None) -> int:
    """Write lines of a file; return their number.

    Args:
        take: number of lines, evenly spaced; None: all.
        span: take only lines from the first to the last of these two numbers.
    """
    with open_text(TextFile("corpus", path)) as stream:
        lines: Iterable[bytes] = stream if span is None else islice(stream, span[0] - 1, span[1])
        if take is not None:
            every = list(lines)
            lines = every if take >= len(every) else [every[place * len(every) // take] for place in range(take)]
        count = 0
        for line in lines:
            out.write(line if line.endswith(b"\n") else line + b"\n")
            count += 1
    return count


def fetch(context: Context) -> None:
    """Fetch a public corpus, and copy its texts into the folder of the step."""
    from posnmt.corpora.fetch import default_cache, spec
    from posnmt.corpora.fetch import fetch as get

    pair = context.settings["pair"]
    fetched = get(spec(context.settings["corpus"]), default_cache(), (pair["source"], pair["target"]), context.say)
    for part, path in {"source": fetched.source, "target": fetched.target, "documents": fetched.document_ids}.items():
        if path is not None:
            shutil.copyfile(path, context.folder / part)


def length_split(context: Context) -> None:
    """Split the training text into parts of increasing source length, without pairs that are too long to train on."""
    from posnmt.corpora.conditions.length import cap, choose_unit
    from posnmt.corpora.conditions.length import length_split as split
    from posnmt.corpora.conditions.text import parallel_text

    work, text = _work_folder(context), context.inputs["text"]
    unit = choose_unit("subwords", store_of(context.inputs["prepared"]) / "text")
    files = {side: text / side for side in SIDES}
    if context.settings["max_length"] is not None:
        cap(work / "capped", parallel_text(files["source"], files["target"]), unit, context.settings["max_length"])
        files = {side: work / "capped" / f"capped.{side}" for side in SIDES}
    manifest = split(work / "split", parallel_text(files["source"], files["target"]), unit, context.settings["parts"])
    names = {"split/manifest.json": "manifest.json"}
    for number, name in enumerate(manifest["statistics"]["parts"], 1):
        names |= {f"split/{name}.{side}": f"{number}/{side}" for side in SIDES}
    _move_results(context, work, names)


def join(context: Context) -> None:
    """Join consecutive sentences of a document."""
    from posnmt.corpora.conditions.join import join as write_joined
    from posnmt.corpora.conditions.text import parallel_text

    work, text, settings = _work_folder(context), context.inputs["text"], context.settings
    documents = text / "documents"
    known = documents.exists() and settings.get("documents", True)
    files = parallel_text(text / "source", text / "target", documents=documents if known else None)
    write_joined(work / "joined", files, settings["sentences"], drop_rest=settings["rest"] == "drop")
    _move_results(
        context, work, {f"joined/joined.{side}": side for side in SIDES} | {"joined/manifest.json": "manifest.json"}
    )


def swap(context: Context) -> None:
    """Copy a test text, and add copies of its source with swapped words."""
    from posnmt.corpora.conditions.swap import swap as write_swapped
    from posnmt.corpora.conditions.text import InputText

    work, text, shares = _work_folder(context), context.inputs["text"], context.settings["shares"]
    write_swapped(work / "swapped", InputText({"source": TextFile("source", text / "source")}), shares, 1)
    for side in SIDES:
        shutil.copyfile(text / side, context.folder / side)
    _move_results(context, work, {f"swapped/swapped-{share:g}.source": f"swapped-{share:g}" for share in shares})


def reorder_model(context: Context) -> None:
    """Learn a pre-orderer from a training text and its alignments; eflomal aligns a text that has none."""
    from posnmt.corpora.conditions.reorder.command import Reordering, command

    work, text = _work_folder(context), context.inputs["train"]
    alignment = text / "align" if (text / "align").exists() else None
    applied = [f"sample={text / 'source'}"]
    seed = context.settings["seed"]
    asked = Reordering(applied, text / "source", text / "target", alignment, seed=seed)
    command(work / "made", asked, _Progress(context))
    _move_results(context, work, {"made/model.json": "model.json", "made/manifest.json": "manifest.json"})


def reorder(context: Context) -> None:
    """Reorder the words of a corpus' source, and of its swapped copies, into target order."""
    from posnmt.corpora.conditions.reorder.command import Reordering, command

    work, text = _work_folder(context), context.inputs["text"]
    sources = [
        path.name for path in sorted(text.iterdir()) if path.name == "source" or path.name.startswith("swapped-")
    ]
    applied = [f"{name}={text / name}" for name in sources]
    command(work / "made", Reordering(applied, model=context.inputs["model"] / "model.json"), _Progress(context))
    for other in ("target", "documents"):
        if (text / other).exists():
            shutil.copyfile(text / other, context.folder / other)
    _move_results(context, work, {f"made/{name}": name for name in sources})


def _config(context: Context, tree: dict[str, Any]) -> Config:
    """The configuration with the corpora of the step's inputs."""
    train = context.inputs["train"]
    if context.settings["part"] is not None:
        train = train / str(context.settings["part"])
    corpora: dict[str, Any] = {
        name: {side: str(folder / side) for side in SIDES}
        for name, folder in {"train": train, "dev": context.inputs["dev"]}.items()
    }
    tree = merge(tree, {"data": corpora})
    # Preparing a text trains nothing, but a configuration must have a limit of training.
    tree = tree if "train" in tree else {**tree, "train": {"steps": 1}}
    return from_tree(tree)


def store_of(prepared: Path) -> Path:
    """The store in the folder of a `prepare` step."""
    return next(path.parent for path in prepared.glob("*/manifest.json"))


def prepare(context: Context) -> None:
    """Prepare the corpora as a store."""
    from posnmt.data.prepare import prepare as make

    for left in context.folder.glob(".*"):  # temporary folders of a killed attempt
        shutil.rmtree(left, ignore_errors=True)
    tree = context.settings["config"]
    if "subwords" in context.inputs:
        folder = next(context.inputs["subwords"].glob("*/text"))
        tree = merge(tree, {"subword": {"text": str(folder)}})
    make(_config(context, tree), context.folder, context.say)


def train(context: Context) -> None:
    """Start or resume a run; when it has ended, remove its checkpoints."""
    import numpy as np

    from posnmt.data.store import Store
    from posnmt.study.trainings import with_distance
    from posnmt.training.train import train as run_training

    store = store_of(context.inputs["prepared"])
    median = float(np.median(Store.open(store).split("train").source_lengths))
    tree = with_distance(context.settings["config"], median)
    tree = merge(tree, {"data": {"store": str(context.inputs["prepared"])}})
    text = json.loads((store / "manifest.json").read_text())["settings"]["subword"]
    if set(text) == {"text"}:
        tree = merge(tree, {"subword": {"text": str(store / "text")}})
    run = context.folder / "run"
    resume = (run / "config.yaml").exists()
    if not resume:
        shutil.rmtree(run, ignore_errors=True)
    # The run may have ended already, if the step was stopped while it removed the checkpoints.
    if not (resume and "stopped" in Run.open(run).record):
        with _Progress(context) as display:
            run_training(_config(context, tree), run, resume, display)
    shutil.rmtree(run / "checkpoints", ignore_errors=True)


def translate(context: Context) -> None:
    """Translate a test text and its copies with swapped words, and record the speed."""
    from posnmt.study.trainings import searched
    from posnmt.translate.command import translate_file
    from posnmt.translate.source import Files

    text, run, speeds = context.inputs["test"], context.inputs["run"] / "run", {}
    search = searched(Run.open(run).config.decode, context.settings.get("search", {}))
    for path in sorted(text.iterdir()):
        if path.name == "source" or path.name.startswith("swapped-"):
            output = path.name.replace("source", "output").replace("swapped", "output")
            context.say(f"translating {path.name}")
            speeds[output] = asdict(translate_file(run, Files(path, context.folder / output), search))
    (context.folder / "speed.json").write_text(json.dumps(speeds, indent=1) + "\n")


def speed(context: Context) -> None:
    """Measure training and decoding of several systems in turn."""
    from posnmt.study.speed import RESULTS, TimedSystem, Turns, in_turn

    systems = [
        TimedSystem(
            context.inputs[f"run-{number}"] / "run",
            store_of(context.inputs[f"prepared-{number}"]),
            each.get("search", {}),
        )
        for number, each in enumerate(context.settings["systems"])
    ]
    lines = (context.inputs["test"] / "source").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    turns = Turns(**{name: count for name, count in context.settings.items() if name != "systems"})
    speeds = in_turn(systems, lines, turns, context.say)
    measured = [
        {"system": each["system"], "training": each["training"], **measured_speeds}
        for each, measured_speeds in zip(context.settings["systems"], speeds, strict=True)
    ]
    (context.folder / RESULTS).write_text(json.dumps(measured, indent=1) + "\n")


def analyse(context: Context) -> None:
    """Analyse the outputs of one test; write a report, and the counts for the verdicts."""
    from posnmt.evaluation.analyse.measure import Resampling
    from posnmt.evaluation.report.write import write
    from posnmt.study import evidence

    # Without a correction, as in the papers, whose tables the report has.
    analysis, outputs = measured(context, Resampling(correction="none"))
    evidence.save(context.folder, analysis.additive, analysis.source_lengths, outputs, documents(context))
    context.say("drawing")
    write(analysis, context.folder)


def documents(context: Context) -> np.ndarray | None:
    """`[N]` the document number of each sentence of a test; None if it is not known or the analysis does not use it."""
    from posnmt.evaluation.analyse.likelihood import document_numbers

    ids = documents_of(context.inputs["test"]) if context.settings.get("documents") else []
    return document_numbers(ids, len(ids)) if ids else None


def measured(context: Context, resampling: Resampling) -> tuple[Analysis, list[dict[str, Any]]]:
    """The analysis of the outputs of one test, and the facts about every output."""
    from posnmt.config.segmenters import word_tokeniser
    from posnmt.data.text import TextPipeline
    from posnmt.data.tokenise import Words
    from posnmt.evaluation.analyse.analyse import analyse as measure
    from posnmt.evaluation.analyse.settings import Settings

    settings, test = context.settings, context.inputs["test"]
    models = store_of(context.inputs["prepared"]) / "text"
    outputs = list(_outputs(context))
    work = _work_folder(context)
    source, reference = test / "source", test / "target"
    plain = {each["name"]: each["file"] for each in outputs if not each["share"]}
    swapped = {(each["name"], each["share"]): each["file"] for each in outputs if each["share"]}
    unit: dict[str, Any] = {"unit": "subwords", "subword_model": models}
    if settings["text"] != "raw":
        if settings["text"] == "subwords":
            pipeline = TextPipeline.load(models)
            unit = {"unit": "tokens"}
            source = _cut(source, _subwords(pipeline.source), work)
            cut = _subwords(pipeline.target)
        else:
            unit["target_subword_model"] = models / "target.model"  # tokenised already
            cut = Words(settings["target_language"], word_tokeniser(settings["target_language"])).split_all
        reference = _cut(reference, cut, work)
        plain = {name: _cut(path, cut, work) for name, path in plain.items()}
        swapped = {key: _cut(path, cut, work) for key, path in swapped.items()}
    if languages := settings.get("completeness"):
        unit |= {"completeness": True, "source_language": languages["source"], "target_language": languages["target"]}
    trained = [each["trained_lengths"] for each in outputs if each["trained_lengths"] is not None]
    edges = _bins_of_parts(context) if settings["bins"] == "parts" else settings["bins"]
    options = Settings(
        **unit, bin_edges=edges, trained_lengths=trained, metrics=settings["metrics"],
        bleu_tokenizer=settings["bleu_tokenizer"] if settings["text"] == "raw" else "none",
        resampling=resampling,
        processes=context.resources.cores,
    )  # fmt: skip
    analysis = measure(source, reference, plain, options, swapped, context.say)
    shutil.rmtree(work)
    return analysis, outputs


def _outputs(context: Context) -> Iterator[dict[str, Any]]:
    """Every output with the facts about its system, in the order of the analysis: outputs of swapped sources come last.

    Lengths in training are unknown where a training counted them in subwords other than those of the analysis.
    """
    settings = context.settings
    for share in (0, *settings["shares"]):
        for number, output in enumerate(settings["outputs"]):
            translations, run = context.inputs[f"output-{number}"], context.inputs[f"run-{number}"] / "run"
            label = output["label"]
            record = read_record(run)
            lengths, targets = (record["training_lengths"][side] for side in SIDES)
            file = "output" if not share else f"output-{share:g}"
            speed = json.loads((translations / "speed.json").read_text())[file]
            yield {
                # What follows a colon counts as a seed: a label with one gets its seed even if it is the only one.
                "name": label if settings["seeds"] == 1 and ":" not in label else f"{label}:{output['seed']}",
                **{key: output[key] for key in ("system", "training", "seed")},
                "share": share,
                "file": translations / file,
                "trained_lengths": None if "other_subwords" in output else [lengths["shortest"], lengths["longest"]],
                "parameters": record["parameters"],
                "training_speed": training_speed(run),
                "decoding_speed": speed["source_subwords"] / speed["seconds"],
                "longest_target": None if "other_subwords" in output else targets["longest"],
            }


def training_speed(run: Path) -> float | None:
    """The median of a run's logged training speeds, in source tokens per second: robust to pauses."""
    from statistics import median

    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    speeds = [figures["source_tokens_per_second"] for figures in map(json.loads, lines) if figures["kind"] == "train"]
    return median(speeds) if speeds else None


def likelihood(context: Context) -> None:
    """Score the references of a test with the models of runs; write losses, table and page.

    Models whose losses were taken over from a copy are in the settings by their row there.
    """
    from posnmt.config.schema import Positions
    from posnmt.evaluation.analyse.losses import Scored
    from posnmt.evaluation.analyse.scoring import Model
    from posnmt.study.likelihood import TakenOver, save

    models = context.settings["models"]
    scored = [Scored(f"{each['system']}:{each['seed']}", each["system"], each["seed"]) for each in models]
    here = [
        Model(
            scored[number],
            Run.open(context.inputs[f"run-{number}"] / "run"),
            positions=Positions.model_validate(each["positions"]) if "positions" in each else None,
        )
        for number, each in enumerate(models)
        if "row" not in each
    ]
    settings, test = context.settings, context.inputs["test"]
    taken = TakenOver(models, scored, context.files) if context.files else None
    shift = settings.get("shift")
    save(here, settings["baseline"], test, settings["swap"], shift, context.folder, context.say, taken)


def _bins_of_parts(context: Context) -> list[int]:
    """The edges of bins that match the parts of the training text: the first length of every bin but the first.

    Each bin ends at the longest source of its part. The last bin has the lengths that are longer than all parts.
    """
    manifest = json.loads((context.inputs["parts"] / "manifest.json").read_text(encoding="utf-8"))
    return sorted({part["source"]["longest"] + 1 for part in manifest["statistics"]["parts"].values()})


def _subwords(side: SideText) -> Cut:
    """A function that segments lines into the subwords of training and keeps characters that are out of vocabulary."""
    return lambda lines: [" ".join(pieces) for pieces in side.subwords.split(side.words.split_all(lines))]


def _cut(path: Path, cut: Cut, work: Path) -> Path:
    """Write a text segmented into words or subwords; return the path."""
    cut_path = work / f"{len(list(work.iterdir()))}.txt"
    cut_path.write_text("".join(f"{line}\n" for line in cut(lines_of(path))), encoding="utf-8", newline="\n")
    return cut_path


KINDS: dict[str, Kind] = {
    "artificial": Kind(artificial, 1),
    "part-of-artificial": Kind(part_of_artificial, 1),
    "corpus": Kind(corpus, 1),
    "fetch": Kind(fetch, 1),
    "length-split": Kind(length_split, 1),
    "join": Kind(join, 1),
    "swap": Kind(swap, 1),
    "reorder-model": Kind(reorder_model, 1),
    "reorder": Kind(reorder, 1),
    "prepare": Kind(prepare, 1),
    "train": Kind(train, 1, uses_gpu=True),
    "translate": Kind(translate, 1, uses_gpu=True),
    "speed": Kind(speed, 1, uses_gpu=True),
    "analyse": Kind(analyse, 1),
    "likelihood": Kind(likelihood, 1, uses_gpu=True),
}
