"""Whole commands with odd options and files, each a process of its own, which begins where the imports have ended.

A command succeeds with status 0, or is refused with status 2 and lines that begin with `error: `. Its options come from
those that make sense, one to three of them exchanged for odd ones; the files that it reads are small, and many are
damaged. Options that ask for much work in earnest are left out.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from unittest.mock import patch

import yaml
from hypothesis import strategies as st

import posnmt
from posnmt.corpora import download
from tests.fuzz.hunt import Elsewhere, bound_child
from tests.fuzz.mutations import STRINGS, YAML_TEXTS
from tests.fuzz.parsers import CONFIG, FROZEN, KEYS, RECIPE
from tests.support.forked import become, fork, import_all

TEXT = "Ein Satz mit Wörtern .\nZwei kurze Sätze .\nDrei\n" * 4
LINES = [text for text in STRINGS if "\0" not in text]
INPUTS = ["s", "t", "short", "empty", "blank", "bytes", "crlf", "bad.gz", "cut.gz", "folder", "absent", "table", "s.gz"]
INPUTS += ["run/record.json", "run/text/source.model", "config.yaml", "run", "damaged", "-", "align", "nul"]
RUNS = ["run", "run", "damaged", "empty-run", "s", "absent", "exported"]
OUTS = ["out", "out/deep/er", "s", "folder", "", ".", "x" * 300, "out\n", "out\u202e", "é", "out/\udcff"]
FEW = ["1", "2", "3", "0", "-1", "1.5", "", "x", "²", "nan", "1e5"]
SEEDS = [*FEW, "-5", str(2**63), str(2**64), "9" * 400, "9" * 5000]
SHARES = ["0.1", "0.5", "1", "0", "-0.1", "1.1", "nan", "inf", "1e999", "x", ""]

PLAIN = st.sampled_from(LINES)
KINDS: dict[str, st.SearchStrategy[str]] = {
    "file": st.sampled_from(INPUTS),
    "run": st.sampled_from(RUNS),
    "out": st.sampled_from(OUTS),
    "few": st.sampled_from(FEW),
    "seed": st.sampled_from(SEEDS),
    "share": st.sampled_from(SHARES),
    "text": PLAIN,
    "unit": st.sampled_from(["words", "tokens", "subwords", "characters", "x"]),
    "named": st.builds(lambda name, file: f"{name}={file}", PLAIN | st.just("one"), st.sampled_from(INPUTS)),
    "swapped": st.builds(lambda share, file: f"one:{share}={file}", st.sampled_from(SHARES), st.sampled_from(INPUTS)),
    "scores": st.builds(lambda name, file: f"{name}:one={file}", PLAIN | st.just("comet"), st.sampled_from(INPUTS)),
    "set": st.builds(lambda key, value: f"{key}={value}", st.sampled_from(KEYS), st.sampled_from(YAML_TEXTS) | PLAIN),
    "config": st.sampled_from(["config.yaml", "bomb.yaml", "date.yaml", *INPUTS]),
    "recipe": st.sampled_from(["own.yaml", "neishi2019", "bomb.yaml", "own", *INPUTS]),
    "program": st.sampled_from(["cat", "false", "head -1", "no-such-program", ""]),
}

COMMANDS = [
    "translate {run:run} --input {file:s} --output {out:out} --beam {few:1} --nbest {few:1} --length-penalty {share:1} "
    "--max-ratio {share:1} --max-extra {few:1} --batch {few:3} --precision {text:fp32} --checkpoint {text:best} "
    "--interpolate {share:1} --engine {text:torch} --format {text:jsonl}",
    "score {run:run} --source {file:s} --target {file:t} --checkpoint {text:model} --interpolate {share:1}",
    "export {run:run} --format {text:ctranslate2} --out {out:out} --positions {few:3} --precision {text:fp32}",
    "analyse --source {file:s} --reference {file:t} --output {named:one=s} --out {out:out} --run {run:absent} "
    "--unit {unit:words} --subword-model {file:run/text/source.model} --bin-width {few:3} --bin-edges {text:2,4} "
    "--max-trained-length {few:3} --trained-on {file:s} --metrics {text:bleu} --target-language {text:de} "
    "--samples {few:0} "
    "--bleu-tokenizer {text:13a} --scores {scores:comet:one=numbers} --lower-is-better {text:comet} "
    "--swapped {swapped:one:0.1=s} --seed {seed:1} --correction {text:holm} --examples {few:1}",
    "condition artificial --out {out:out} --train {few:3} --dev {few:2} --test {few:2} --min-length {few:3} "
    "--max-length {few:5} --test-max-length {few:9} --reordering {text:mixed} --lexicon {few:50} --seed {seed:1}",
    "condition reorder --out {out:out} --apply {named:x=s} --source {file:s} --target {file:t} "
    "--alignment {file:align} "
    "--model {file:absent} --command {program:cat} --seed {seed:1} --passes {few:1}",
    "condition length-split --out {out:out} --source {file:s} --target {file:t} --tsv {file:table} "
    "--parts {few:2} --unit {unit:words} "
    "--subword-model {file:run/text/source.model}",
    "condition cap --out {out:out} --source {file:s} --target {file:t} --tsv {file:table} --max-length {few:3} "
    "--unit {unit:words}",
    "condition join --out {out:out} --source {file:s} --target {file:t} --documents {file:s} --sentences {few:2} "
    "--source-separator {text: } --rest {text:drop}",
    "condition swap --out {out:out} --source {file:s} --share {share:0.1} --share {share:0.5} --seed {seed:1}",
    "prepare {config:config.yaml} --out {out:out} --set {set:train.seed=2} --set {set:data.accept=[empty]}",
    "train {config:config.yaml} --out {out:out} --set {set:train.seed=2} --set train.steps=1 "
    "--source {file:absent} --minutes {share:0}",
    "train --source {file:s} --target {file:t} --dev-source {file:s} --dev-target {file:t} --source-language {text:en} "
    "--target-language {text:de} --set {set:train.seed=1} --set train.steps=1 --set model.size=tiny --out {out:out}",
    "data list {text:R19}",
    "data fetch {text:newstest2014-de-en} --cache {out:out} --pair {text:de-en}",
    "data fetch sacrebleu:{text:wmt14} --cache {out:out} --pair {text:de-en}",
    "study plan {recipe:own.yaml} --scale {text:smoke} --data {file:folder} --out {out:out} --set {set:title=x} "
    "--no-calibrate",
    "study status {recipe:own} --scale {text:smoke} --out {file:study}",
    "study report {recipe:own} --scale {text:smoke} --out {file:study}",
    "systems {text:relative} --vocabulary {few:100} --size {text:tiny}",
    "demo --out {file:folder} --updates {few:0} --seed {seed:1}",
]  # fmt: skip
REQUIRED = re.compile(r"--(out|source|target|reference|output|format|apply|share|max-length|scale) ")
ALWAYS = ("--updates ",)
"""Options that are never left out: without them a command works in earnest."""
PART = re.compile(r"(--[\w-]+ )?(\w+:)?\{(\w+):([^}]*)\}|(--[\w-]+)|(\S+)")


class Commands:
    """A folder with small files, in which commands run; a context manager, which enters the folder."""

    def __enter__(self) -> Commands:
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-commands-"))
        self._before = Path.cwd()
        os.chdir(self.folder)
        _write(self.folder)
        import_all()
        environment = {"HOME": str(self.folder), "POSNMT_CACHE": str(self.folder / "cache")}
        self._patches = [
            patch.dict(os.environ, environment), patch.object(socket, "getaddrinfo", _no_network),
            patch.object(download, "PAUSES", ()), patch("posnmt.corpora.fetch.PAUSES", ()),
        ]  # fmt: skip
        for each in self._patches:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._patches:
            each.stop()
        os.chdir(self._before)
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def inputs() -> st.SearchStrategy[list[str]]:
        """Commands as lists of arguments."""
        return st.sampled_from(COMMANDS).flatmap(_filled)

    def attempt(self, arguments: list[str]) -> None:
        """Run a command in a process of its own; an error if it ends otherwise than commands may.

        Raises:
            Elsewhere: a traceback, a signal, another status, or a refusal without a clear line.
        """
        try:
            status, errors = self._run(arguments)
        finally:
            for place in [*self.folder.glob("out*"), *self.folder.glob("é*")]:
                shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
        if "Traceback (most recent call last)" in errors:
            raise Elsewhere(_fault(errors))
        if status not in (0, 2):
            raise Elsewhere(f"status {status} of {arguments[:1]}: {errors[-300:]!r}")
        refusals = [line for line in errors.split("\n") if line.startswith("error: ")]
        clear = all(len(line.removeprefix("error: ").strip()) > 3 for line in refusals)
        if bool(refusals) != (status == 2) or not clear:
            raise Elsewhere(f"no clear line from {arguments[:1]}: status {status}, {errors[-300:]!r}")

    def _run(self, arguments: list[str]) -> tuple[int, str]:
        """Run a command on a copy of this process; its exit status and what it writes to standard error."""
        with (
            (self.folder / "s").open("rb") as stdin,
            tempfile.TemporaryFile() as errors,
            open(os.devnull, "wb") as none,
        ):
            sys.stdout.flush()
            sys.stderr.flush()
            child = fork()
            if child == 0:
                for number, stream in enumerate((stdin, none, errors)):
                    os.dup2(stream.fileno(), number)
                become(arguments, bound_child)
            try:
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            except BaseException:  # it takes too long
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise
            errors.seek(0)
            return status, errors.read().decode("utf-8", "replace")


def _fault(errors: str) -> str:
    """The kind of error of a traceback, the innermost place in the package, and what the error says."""
    package = Path(posnmt.__file__).parent
    frames = re.findall(rf'File "{re.escape(str(package))}/(\S+)", line \d+, in (\S+)', errors)
    last = next((line for line in reversed(errors.rstrip().split("\n")) if re.match(r"[\w.]+(: |$)", line)), "?")
    kind, _, says = last.partition(": ")
    place = ":".join(frames[-1]) if frames else "outside the package"
    return f"{kind.rpartition('.')[2]} in {place}: {says[:200]!r}"


@st.composite
def _filled(draw: st.DrawFn, command: str) -> list[str]:
    """The arguments of a command: some options left out, and one to three values exchanged."""
    parts = list(PART.finditer(command))
    values = [number for number, part in enumerate(parts) if part[3]]
    odd = draw(st.lists(st.sampled_from(values), min_size=0, max_size=3)) if values else []
    arguments = []
    for number, part in enumerate(parts):
        if not part[3]:
            arguments.append(part[0])
            continue
        given = number in odd
        kept = given or not part[1] or part[1] in ALWAYS
        if not kept and not (REQUIRED.match(part[1]) and draw(st.integers(0, 9))) and draw(st.booleans()):
            continue
        value = draw(KINDS[part[3]]) if given else part[4]
        arguments += [*([part[1].strip()] if part[1] else []), (part[2] or "") + value]
    return arguments


def _no_network(*_: object, **__: object) -> None:
    raise socket.gaierror(-2, "no network here")


def _write(folder: Path) -> None:
    """The files that commands read."""
    files: dict[str, bytes] = {
        "s": TEXT.encode(), "t": TEXT.encode(), "short": b"x\n", "empty": b"", "blank": b"\n \n",
        "bytes": bytes(range(256)) * 4,
        "crlf": TEXT.replace("\n", "\r\n").encode(), "bad.gz": b"no gzip", "cut.gz": gzip.compress(TEXT.encode())[:-9],
        "s.gz": gzip.compress(TEXT.encode()), "table": TEXT.replace(" ", "\t", 1).encode(), "nul": b"a\0b\n",
        "align": b"0-0 1-1\n" * 12, "numbers": b"0.5\n" * 12, "folder/x": b"x", "bomb.yaml": YAML_TEXTS[-4].encode(),
        "date.yaml": b"data: 2020-13-45\n", "own.yaml": yaml.safe_dump(RECIPE).encode(), "study/asked.json": b"{}",
    }  # fmt: skip
    corpus = {"train": {"source": "s", "target": "t"}, "dev": {"source": "s", "target": "t"}, "accept": ["empty"]}
    config = {
        **CONFIG, "data": corpus, "subword": {"vocabulary": 30},
        "train": {"steps": 1, "batch": 100, "dev_bleu": False, "precision": "fp32", "average": 1},
    }  # fmt: skip
    files["config.yaml"] = yaml.safe_dump(config).encode()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for name in ("run", "damaged"):
        shutil.copytree(FROZEN / "learned", folder / name)
    (folder / "damaged" / "record.json").write_bytes(b'{"training_lengths": [')
    (folder / "damaged" / "model.safetensors").write_bytes(b"\0" * 100)
    (folder / "empty-run").mkdir()
    (folder / "exported").mkdir()
    (folder / "exported" / "posnmt.json").write_bytes(b"{}")
