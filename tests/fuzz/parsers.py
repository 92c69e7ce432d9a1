"""The parsers of posnmt, each with valid files to damage and a function that reads them.

A parser reads a folder. For one input, one file of a valid folder is replaced, and the folder is read: that succeeds,
or raises a `UserError`. Everything that is read here is what a command reads, by the function that the command calls.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.fuzz.document_files import FILES, read_document
from tests.fuzz.mutations import STRINGS, XML_TEXTS, YAML_TEXTS, byte_edits, json_edits, text_edits, yaml_edits
from tests.support.recipe_case import SMALL

FROZEN = Path(__file__).parents[1] / "frozen"

Inputs = st.SearchStrategy[bytes]


@dataclass(frozen=True)
class Parser:
    """A parser and what it reads.

    Attributes:
        files: path in the folder → its valid content.
        inputs: path in the folder → damaged contents, for the files that are damaged.
        read: reads the folder; its second argument is the name of the damaged file.
    """

    read: Callable[[Path, str], Any]
    files: dict[str, bytes] = field(default_factory=dict)
    inputs: dict[str, Inputs] = field(default_factory=dict)


def _of(
    read: Callable[[Path, str], Any], files: dict[str, bytes], *named: tuple[str, Callable[[bytes], Inputs]]
) -> Parser:
    """A parser whose files are damaged as the last function for which the name ends in the given suffix says."""
    inputs = {}
    for name, content in files.items():
        for suffix, damaged in named:
            if name.endswith(suffix):
                inputs[name] = damaged(content)
    return Parser(read, files, inputs)


def _folder_edits(content: bytes) -> Inputs:
    """A packed folder: edits of the file, of the archive in it, or of one of its files."""
    files = _unpacked_folder(content)
    inside = [
        (json_edits if name.endswith(".json") else byte_edits)(each).map(
            lambda new, name=name: _packed_folder(files | {name: new})
        )
        for name, each in files.items()
    ]
    return byte_edits(content) | byte_edits(lzma.decompress(content)).map(lzma.compress) | st.one_of(inside)


_FORMS = (("", byte_edits), (".json", json_edits), (".yaml", yaml_edits), (".tar.xz", _folder_edits))


# Configurations

CONFIG = {
    "format": 1,
    "data": {
        "root": ".",
        "train": {"source": "train.en", "target": "train.de"},
        "dev": {"tsv": "dev.tsv"},
        "source_language": "en",
        "target_language": "de",
        "tokenise": {"source": "moses", "target": "none"},
        "truecase": True,
        "max_length": 50,
        "accept": ["empty"],
        "store": None,
    },
    "subword": {"vocabulary": 100, "character_coverage": 0.99, "type": "bpe", "shared": True},
    "model": {
        "size": "tiny",
        "d_model": 16,
        "feed_forward": 32,
        "heads": 2,
        "dropout": 0.1,
        "encoder": {
            "layers": 1,
            "position": [{"scheme": "relative", "distance": 4}, {"scheme": "recurrent", "cell": "gru"}],
        },
        "decoder": {"layers": 1, "position": [{"scheme": "sinusoidal"}]},
    },
    "train": {
        "seed": 3,
        "steps": 10,
        "batch": 100,
        "adam_betas": [0.9, 0.98],
        "learning_rate": 0.001,
        "schedule": {"type": "noam", "warmup": 10},
        "label_smoothing": 0.1,
        "precision": "fp32",
    },
    "decode": {"beam": 2, "length_penalty": 1.0, "max_ratio": 1.5, "max_extra": 10},
}
NAMED = {
    "data": {"train": {"source": "a", "target": "b"}, "held_out": 5},
    "train": {"minutes": 1},
    "model": {"system": "relative", "without": "decoder", "size": "small"},
}
ARCHITECTURES = {
    "data": {"train": {"source": "a", "target": "b"}},
    "train": {"epochs": 1},
    "model": {
        "architecture": "convs2s",
        "options": {"widths": [8, 20], "kernels": [2, 1]},
        "encoder": {"layers": 2},
        "decoder": {"layers": 2},
    },
}
KEYS = [
    "data.root",
    "data.train",
    "train.seed",
    "train.adam_betas",
    "model",
    "model.encoder",
    "model.encoder.position",
    "train.schedule.warmup",
    "decode.beam",
    "",
    ".",
    "a..b",
    "x.y",
]


def _tree(content: dict[str, Any]) -> bytes:
    return yaml.safe_dump(content, sort_keys=False).encode()


def _config(folder: Path, name: str) -> None:
    from posnmt.run.resolve import dump, load

    dump(load(folder / name))


def _setting(folder: Path, name: str) -> None:
    from posnmt.run.resolve import load

    load(folder / "config.yaml", [(folder / name).read_text("utf-8", "surrogateescape")])


_SETTINGS = st.builds(
    lambda key, sign, value: f"{key}{sign}{value}".encode("utf-8", "surrogatepass"),
    st.sampled_from(KEYS),
    st.sampled_from(["=", "=", "=", "==", " = ", ""]),
    st.sampled_from(YAML_TEXTS + STRINGS) | st.integers().map(str) | st.text(max_size=8),
)


# Recipes, studies and public corpora

RECIPE: dict[str, Any] = {
    **SMALL,
    "tables": [
        {
            "table": 1,
            "caption": "c",
            "rows": ["transformer", "relative"],
            "columns": [{"title": "t", "analysis": "test"}],
        }
    ],
    "claims": [
        {
            "claim": 1,
            "says": "s",
            "test": {
                "analysis": "test",
                "of": {"system": "relative"},
                "is": "higher",
                "than": {"system": "transformer"},
            },
        }
    ],
}
PUBLIC = {
    "a": {"url": ["http://a.example/a.en.gz", "https://a.example:80/a.de.gz"], "sha256": ["0" * 64, "1" * 64]},
    "b": {"url": "https://a.example/b.tgz?x=y", "members": ["a.en", "*.de"], "languages": ["en", "de"]},
    "c": {"url": "https://a.example/c.tsv", "columns": [1, 0], "documents": 2, "form": "tsv"},
    "d": {"sacrebleu": "wmt14/full", "pair": "en-de"},
    "e": {"mtdata": "Statmt-europarl-10-deu-eng"},
    "f": {"name": "newstest2014-de-en"},
    "g": {"path": ["a.en", "a.de"], "documents": "a.ids"},
}


def _recipe(folder: Path, name: str) -> None:
    from posnmt.study.load import load
    from posnmt.study.plan import plan

    recipe = load(str(folder / name))
    for scale in recipe.scales:
        plan(recipe, scale, folder)


def _with_public() -> dict[str, Any]:
    corpora = {
        "train": {"public": PUBLIC["a"]},
        "dev": [{"public": PUBLIC["c"]}, {"public": PUBLIC["f"]}],
        "test": {"public": PUBLIC["b"]},
    }
    return {**RECIPE, "scales": {"small": {"corpora": corpora, "config": {"train": {"steps": 1}}}}}


def _public(folder: Path, name: str) -> None:
    from posnmt.config.yaml import read_yaml
    from posnmt.corpora.download import Downloads
    from posnmt.corpora.spec import Remote, spec

    tree, _ = read_yaml(folder / name, "corpora", "a mapping")
    for each in tree.values():
        if isinstance(each, dict):
            corpus = spec(each)
            for url in corpus.urls if isinstance(corpus, Remote) else []:
                Downloads(folder, _silent).place(url)


def _study(folder: Path, name: str) -> None:
    from posnmt.study.registration import history
    from posnmt.study.study import load_plan
    from posnmt.study.workflow.runner import open_study

    open_study(folder, "own", "hash")
    history(load_plan(folder), folder)


def _started() -> bytes:
    about = {"format": 1, "recipe": "own", "hash": "h", "posnmt": "0", "registered": [_entry()]}
    return json.dumps(about).encode()


def _entry() -> dict[str, Any]:
    """What a study registered."""
    from posnmt.study.recipe import Recipe
    from posnmt.study.registration import content

    asked = content(Recipe.model_validate(RECIPE), "smoke")
    return {"time": "2026-01-01T00:00:00+00:00", "trainings": 0, "sha256": "0", "content": asked}


def _requested() -> bytes:
    from posnmt.study.recipe import Recipe

    recipe = Recipe.model_validate(RECIPE).model_dump(mode="json", by_alias=True)
    return json.dumps({"format": 1, "recipe": recipe, "scale": "smoke", "data": None, "plugins": []}).encode()


def _copied_plan() -> Any:
    from posnmt.study.plan import plan
    from posnmt.study.recipe import Recipe

    [claim] = RECIPE["claims"]
    faster = {**claim["test"], "measure": "training_speed"}
    recipe = {**RECIPE, "claims": [{**claim, "test": faster}]}
    return plan(Recipe.model_validate(recipe), "smoke", None)


def _copy(folder: Path, name: str) -> None:
    from posnmt.study.adopt import adopt
    from posnmt.study.copied import Copy
    from posnmt.study.registration import register
    from posnmt.study.workflow.runner import open_study

    with tempfile.TemporaryDirectory(dir=folder) as name:
        study_plan, out = _copied_plan(), Path(name)
        open_study(out, study_plan.recipe.recipe, study_plan.recipe.hash)
        register(study_plan, out, Copy(folder))
        list(adopt(study_plan, out, Copy(folder)))


def _published() -> dict[str, bytes]:
    """A copy of a study with one training finished, and speeds."""
    from posnmt.study.copied import name_of
    from posnmt.study.plan import KINDS, SPEED
    from posnmt.study.workflow.graph import Graph

    study_plan = _copied_plan()
    graph, first = Graph(study_plan.steps.values(), KINDS), study_plan.runs[0]
    speed = {"lines": 4, "source_subwords": 9, "seconds": 0.5}
    outputs = {"test": ["output"], "joined": ["output"], "swapped": ["output", "output-0.1"]}

    def facts(step: str) -> dict[str, Any]:
        return {"key": graph.key(step), "finished": "2026-01-01", "seconds": 1.5, "versions": {"torch": "2.13.0"}}

    about = {
        "train": facts(first.train),
        "translations": {
            test: {**facts(step), "speed": dict.fromkeys(outputs[test], speed)}
            for test, step in first.translations.items()
        },
    }
    name = name_of(first)
    files = {"config.yaml": b"format: 1\n", "record.json": b"{}", "metrics.jsonl": LINES}
    files["steps.json"] = json.dumps(about).encode()
    rows = "".join(f'"{line}","{line}"\r\n' for line in LINES.decode("utf-8").split("\n"))
    table = f"{name},{name}-0.1\r\n{rows}".encode()
    names = {"format": 1, "recipe": study_plan.recipe.recipe, "scale": study_plan.scale}
    mark = json.dumps({**names, "signatures": {"test": {"bleu": "tok:13a"}}}).encode()
    turns = {"training_speed": [9.5, 8], "decoding_speed": [9]}
    systems = [{"system": name, "training": "all", **turns} for name in ("transformer", "relative")]
    speeds = json.dumps({"step": facts(SPEED), "systems": systems}).encode()
    registered = json.dumps([_entry()]).encode()
    return {
        "published.json": mark,
        "registered.json": registered,
        "speeds.json": speeds,
        "runs.tar.xz": _packed_folder(_prefixed(f"runs/{name}", files)),
        "translations.tar.xz": _packed_folder({f"translations/{test}.csv": table for test in outputs}),
    }


def _packed_folder(files: dict[str, bytes]) -> bytes:
    """A packed folder of a copy."""
    from tests.support.copies import pack

    with tempfile.TemporaryDirectory() as name:
        pack(files, Path(name) / "packed")
        return (Path(name) / "packed").read_bytes()


def _unpacked_folder(content: bytes) -> dict[str, bytes]:
    from posnmt.study.packed import unpack

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "packed").write_bytes(content)
        return unpack(Path(name) / "packed")


def _silent(*_: object) -> None:
    pass


# Texts

LINES = "Ein Satz.\nZwei  Sätze mit 日本語.\nDrei\tund vier.\nFünf\u2028sechs.\n".encode()
TABLE = "a b\tc d\tdoc1\nä\tö\nx\ty\tdoc2\n".encode()


def _text(folder: Path, name: str) -> None:
    from posnmt.data.corpus import Findings, TextFile, read_pairs

    for accept in ((), ("empty", "crlf")):
        findings = Findings(accept)
        if name.startswith("table"):
            files = {"tsv": folder / name}
        else:
            files = {
                part: folder / (name if name.startswith(part) else part) for part in ("source", "target", "documents")
            }
        list(read_pairs({part: TextFile(part, path) for part, path in files.items()}, findings))
        findings.raise_all()


OBJECTS = b'{"en": "a b", "de": "c d", "id": "one"}\n{"t": {"en": "x"}, "en": "\\u00e4", "de": "e", "id": null}\n'


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = io.BytesIO()
    parquet.write_table(pa.table({"en": ["a b", "x"], "de": ["c d", "y"], "id": [1, None]}), sink)
    return sink.getvalue()


def _tables(folder: Path, name: str) -> None:
    """Files with both sides, in a list of corpora."""
    from posnmt.config.schema import Data
    from posnmt.data.corpus import Findings
    from posnmt.data.listed import read_parts
    from posnmt.data.prepare import input_files

    fields: dict[str, Any] = {"source": "en", "target": "de"} | ({} if ".tmx" in name else {"document": "id"})
    if ".tsv" in name:
        fields = {"source": 2, "target": 1, "document": 3}
    data = Data.model_validate({"root": str(folder), "train": [{"file": name, "fields": fields}]})
    for accept in ((), ("empty", "crlf")):
        findings = Findings(accept)
        list(read_parts(input_files(data)["train"], findings))
        findings.raise_all()


def _packed(name: str, content: bytes) -> dict[str, bytes]:
    return {name: content, f"{name}.gz": gzip.compress(content, mtime=0), f"{name}.xz": lzma.compress(content)}


# Archives and XML

MEMBERS = {"a/text.en": LINES, "a/text.de": LINES, "b": b"x"}


def _tar(mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as box:
        for name, content in MEMBERS.items():
            item = tarfile.TarInfo(name)
            item.size = len(content)
            box.addfile(item, io.BytesIO(content))
    return out.getvalue()


def _zip(method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as box:
        for name, content in MEMBERS.items():
            box.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return out.getvalue()


def _archive(folder: Path, name: str) -> None:
    from posnmt.corpora.archive import extract, is_archive

    is_archive(folder / name)
    extract(folder / name, {"a/text.en": folder / "en", "*.de": folder / "de"})


def _unpacked(folder: Path, name: str) -> None:
    from posnmt.corpora.text import write_text, write_tsv

    write_text([folder / name, folder / name], [folder / "one", folder / "two"])
    write_tsv(folder / name, [1, 0], 2, [folder / "one", folder / "two", folder / "ids"], _silent)


TMX = b"""<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header/><body><tu><tuv xml:lang="en"><seg>One <ph>x</ph>.</seg></tuv>
<tuv lang="de-DE"><seg>Eins.</seg></tuv></tu><tu><tuv xml:lang="en"><seg>Two</seg></tuv></tu></body></tmx>
"""
WMT = b"""<?xml version='1.0' encoding='utf-8'?>
<dataset id="t"><doc id="d1" origlang="de"><src lang="de"><p><seg id="1">Eins.</seg><seg id="2">Zwei.</seg></p></src>
<ref lang="en" translator="A"><p><seg id="1">One.</seg><seg id="2">Two.</seg></p></ref></doc></dataset>
"""
SGML = b"""<srcset setid="s" srclang="any" trglang="de">
<doc sysid="ref" docid="a.1" genre="news" origlang="de">
<p>
<seg id="1">Eins.</seg>
<seg id="2">Zwei.</seg>
</p>
</doc>
</srcset>
"""


def _tmx(folder: Path, name: str) -> None:
    from posnmt.corpora.tmx import write_tmx

    write_tmx(folder / name, ("en", "de"), [folder / "one", folder / "two"], _silent)


NIST = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE mteval SYSTEM "ftp://jaguar.ncsl.nist.gov/mt/resources/mteval-xml-v1.3.dtd">
<mteval><%sset setid="s" srclang="Chinese" trglang="English" refid="a"><doc docid="d 1" genre="nw">
<hl><seg id="1">Eins &amp; eins.</seg></hl><p><seg id="2">Zwei.</seg></p></doc></%sset></mteval>
"""
ASPEC = b"J-1 ||| 1 ||| Eins. ||| One .\nJ-1 ||| 2 ||| Zwei. ||| Two .\n"


def _licensed(folder: Path, name: str) -> None:
    from posnmt.corpora.licensed import write_licensed
    from posnmt.corpora.spec import Columns, MtEval

    table = Columns(tables=["dev.txt"], separator=" ||| ", fields=4, columns=(2, 3), documents=0)
    (folder / "made").mkdir(exist_ok=True)
    for corpus in [table] if name == "dev.txt" else [MtEval(mteval="mt-*.xml")]:
        texts = write_licensed(corpus, "licensed", folder, folder / "made", _silent)
        assert len({path.read_bytes().count(b"\n") for path in texts.values()}) == 1


def _test_set(folder: Path, name: str) -> None:
    from sacrebleu.dataset import DATASETS
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
    from sacrebleu.dataset.tsv import TSVDataset
    from sacrebleu.dataset.wmt_xml import WMTXMLDataset

    from posnmt.corpora.download import Downloads
    from posnmt.corpora.testset import write_test_set

    kinds: dict[str, Any] = {"set.xml": WMTXMLDataset, "set.tsv": TSVDataset}
    files = [name] if name in kinds else ["de.sgm", "en.sgm"]
    members = ["0:set.tsv", "1:set.tsv"] if name == "set.tsv" else files
    urls = [f"http://fuzz.example/{file}" for file in files]
    made = kinds.get(name, FakeSGMLDataset)("fuzz", data=urls, langpairs={"de-en": members}, refs=["A"])
    made._get_tarball_filename = lambda url: url.rsplit("/", 1)[1]
    DATASETS["fuzz"] = made
    downloads = Downloads(folder / "cache", _silent, pauses=())
    for url in urls:
        place = downloads.place(url)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / url.rsplit("/", 1)[1], place)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        write_test_set("fuzz", "de-en", downloads, Path(out), _silent)


def _cache(folder: Path, name: str) -> None:
    from posnmt.corpora.download import Downloads
    from posnmt.corpora.partial import Partial

    if name == "fetched.json":
        downloads = Downloads(folder, _silent, pauses=())
        downloads.place("http://fuzz.example/f").parent.mkdir(parents=True, exist_ok=True)
        downloads.place("http://fuzz.example/f").write_bytes(b"")
        downloads.get("http://fuzz.example/f")
        downloads.record()
    else:
        (folder / "f.partial").write_bytes(b"abc")
        partial_download = Partial(folder / "f")
        partial_download.complete, partial_download.range_headers()


_FETCHED = {
    "http://fuzz.example/f": {
        "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "bytes": 0,
        "fetched": "2020-01-01",
    }
}
_PARTIAL = {"etag": '"a"', "last_modified": "Mon, 01 Jan 2020 00:00:00 GMT", "length": 10}


# Folders that posnmt writes


def _folder(place: Path, *leave_out: str) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not {path.name, path.parent.name} & {*leave_out}
    }


def _store(folder: Path, name: str) -> None:
    from posnmt.data.prepare import dropped, table
    from posnmt.data.store import Store

    store = Store.open(folder)
    store.verify()
    table(store), dropped(store)
    for each in store.splits:
        split = store.split(each)
        for index in range(len(split)):
            split.pair(index), split.document(index), split.where(index)
        split.target_counts(store.text.target.size)
    if "dev" in store.splits:
        store.split("dev").source_texts, store.split("dev").target_texts


def _run(folder: Path, name: str) -> None:
    from posnmt.run.run import Run, checkpoints_in
    from posnmt.training.checkpoint import Checkpoints, evaluated

    run = Run.open(folder)
    run.record, run.text_hash()
    if "training_histograms" in run.record:  # imported models have none
        run.sentences_by_length, run.target_counts(run.text().target.size)
    run.text().source.encode(["a b c"])
    for place in checkpoints_in(folder / "checkpoints"):
        evaluated(place)
    if not name.endswith("SHA256SUMS"):
        Checkpoints(folder / "checkpoints", 2).undamaged(_silent)
    run.model(), run.model("best")


def _exported(folder: Path, name: str) -> None:
    from posnmt.deploy.folder import open_folder

    open_folder(folder)


def _manifest() -> bytes:
    files = _folder(FROZEN / "run" / "text")
    digests = {f"text/{name}": hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return json.dumps(
        {
            "format": 1,
            "kind": "ctranslate2",
            "posnmt": "0.1.0",
            "run": "r",
            "checkpoint": "model",
            "weights": "0" * 64,
            "system": None,
            "architecture": "transformer",
            "positions": {"encoder": [], "decoder": []},
            "languages": {"source": "en", "target": "de"},
            "precision": "fp32",
            "limits": {"source": None, "target": 10},
            "training_lengths": {"source": {"shortest": 1, "longest": 9}},
            "decode": {"beam": 2},
            "verified": {},
            "files": digests,
        }
    ).encode()


def _model_of_words(folder: Path, name: str) -> None:
    from posnmt.corpora.conditions.reorder.preorder import Preorderer
    from posnmt.data.tokenise import Truecaser

    if name == "preorder.json":
        Preorderer.load(folder / name).order(["a", "b", "c"])
    else:
        Truecaser.load(folder / name).truecase("Der Hund bellt .")


_TRUECASE = {"best": {"hund": "Hund", "der": "der"}, "other": ["DER"]}


# What an analysis reads


def _analysis(folder: Path, name: str) -> None:
    from posnmt.base.errors import raise_all
    from posnmt.data.corpus import Findings
    from posnmt.evaluation.analyse.inputs import Text, parse_outputs, read_aligned
    from posnmt.evaluation.analyse.sentence_scores import faults_of, parse_scores, read_scores
    from posnmt.evaluation.analyse.swap import parse_swapped

    options: dict[str, str] = {"outputs": "one=o", "scores": "comet:one=s", "swapped": "one:0.1=w"}
    if name in options:
        options[name] = (folder / name).read_text("utf-8", "surrogateescape")
    outputs = parse_outputs([options["outputs"]])
    scores = parse_scores([options["scores"]])
    swapped = parse_swapped([options["swapped"]], outputs)
    here = dict.fromkeys(outputs, folder / "output")
    texts = read_aligned(
        folder / "source",
        [folder / "reference"],
        here,
        dict.fromkeys(swapped, folder / "output"),
        Findings(("empty", "crlf")),
    )
    made: list[Text] = [text for text in texts if text.system]
    raise_all(faults_of(scores, ["one"], ()))
    read_scores({metric: dict.fromkeys(files, folder / "numbers") for metric, files in scores.items()}, made[:1])


_NUMBERS = b"0.5\n-1\n1e3\n"
_THREE = b"Ein Satz.\nZwei.\nDrei.\n"


def _options(content: bytes) -> Inputs:
    return text_edits(content, STRINGS) | st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass"))


def parsers() -> dict[str, Parser]:
    """Name → parser."""
    configs = {"config.yaml": _tree(CONFIG), "named.yaml": _tree(NAMED), "architecture.yaml": _tree(ARCHITECTURES)}
    configs["whole.yaml"] = (FROZEN / "run" / "config.yaml").read_bytes()
    source = (
        _packed("source", LINES)
        | _packed("target", LINES)
        | _packed("documents", b"a\na\nb\nc\n")
        | _packed("table.tsv", TABLE)
    )
    text_of = partial(text_edits, texts=XML_TEXTS)
    archives = {
        "a.tar": _tar("w"),
        "a.tgz": _tar("w:gz"),
        "a.txz": _tar("w:xz"),
        "a.tbz": _tar("w:bz2"),
        "stored.zip": _zip(zipfile.ZIP_STORED),
        "a.zip": _zip(zipfile.ZIP_DEFLATED),
        "l.zip": _zip(zipfile.ZIP_LZMA),
        "b.zip": _zip(zipfile.ZIP_BZIP2),
    }
    packed = {
        "a": LINES,
        "a.gz": gzip.compress(LINES, mtime=0),
        "a.xz": lzma.compress(LINES),
        "a.bz2": bz2.compress(LINES),
    }
    run = _folder(FROZEN / "run", "average.safetensors", "step-00000003")
    texts = {f"{name}.{side}": LINES for name in ("train", "dev", "test") for side in "ab"}
    found = {
        "config": _of(_config, configs, ("", yaml_edits)),
        "setting": Parser(_setting, {"config.yaml": _tree(CONFIG)}, {"setting": _SETTINGS}),
        "recipe": _of(
            _recipe,
            {"recipe.yaml": _tree(RECIPE), "public.yaml": _tree(_with_public()), **texts},
            (".yaml", yaml_edits),
        ),
        "public": _of(_public, {"public.yaml": _tree(PUBLIC)}, ("", yaml_edits)),
        "study": _of(
            _study,
            {"asked.json": _requested(), "study.json": _started()},
            *_FORMS,
        ),
        "copy": _of(_copy, _published(), *_FORMS),
        "text": _of(_text, source, ("", byte_edits)),
        "archive": _of(_archive, archives, ("", byte_edits)),
        "unpacked": _of(_unpacked, packed, ("", byte_edits)),
        "tmx": _of(_tmx, {"a.tmx": TMX, "a.tmx.gz": gzip.compress(TMX, mtime=0)}, ("", text_of)),
        "tables": _of(
            _tables,
            {
                **_packed("a.jsonl", OBJECTS),
                **_packed("a.tsv", TABLE.replace(b"\xc3\xb6", b"\xc3\xb6\tdoc3")),
                "a.parquet": _parquet(),
                "a.tmx": TMX,
            },
            ("", byte_edits),
            (".tmx", text_of),
        ),
        "licensed": _of(
            _licensed,
            {"mt-src.xml": NIST % (b"src", b"src"), "mt-ref.xml": NIST % (b"ref", b"ref"), "dev.txt": ASPEC},
            (".xml", text_of),
            (".txt", byte_edits),
        ),
        "test-set": _of(
            _test_set, {"set.xml": WMT, "set.tsv": b"a\tb\nc\td\n", "de.sgm": SGML, "en.sgm": SGML}, ("", text_of)
        ),
        "document": _of(read_document, {name: content.encode() for name, content in FILES.items()}, ("", text_of)),
        "cache": _of(
            _cache,
            {"fetched.json": json.dumps(_FETCHED).encode(), "f.partial.json": json.dumps(_PARTIAL).encode()},
            *_FORMS,
        ),
        "store": _of(_store, _folder(next((FROZEN / "stores").iterdir())), *_FORMS),
        "run": _of(_run, run, *_FORMS),
        "exported": _of(
            _exported, {"posnmt.json": _manifest(), **_prefixed("text", _folder(FROZEN / "run" / "text"))}, *_FORMS
        ),
        "words": _of(
            _model_of_words, {"preorder.json": _preorderer(), "truecase.json": json.dumps(_TRUECASE).encode()}, *_FORMS
        ),
        "analysis": _of(
            _analysis, {"source": _THREE, "reference": _THREE, "output": _THREE, "numbers": _NUMBERS}, ("", byte_edits)
        ),
    }
    options = {"outputs": b"one=o", "scores": b"comet:one=s", "swapped": b"one:0.1=w"}
    found["analysis"].inputs.update({name: _options(content) for name, content in options.items()})
    return found


def _prefixed(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


def _preorderer() -> bytes:
    from posnmt.corpora.conditions.reorder.preorder import BITS, FORMAT

    return json.dumps(
        {
            "format": FORMAT,
            "bits": BITS,
            "classes": {"a": 1, "b": 2},
            "features": [1, 5],
            "weights": [[0.5, 1.0], [0.0, -1.0]],
        }
    ).encode()
