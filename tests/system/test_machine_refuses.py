"""A full disk, a missing permission and too little memory: one line, with what is kept and how to go on."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from posnmt.run.run import checkpoints_in
from tests.support import corpus
from tests.support.commands import run
from tests.support.training_case import assert_same, weights

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits of processes, mounts and /dev/full are Linux's")
pytestmark = LINUX


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, config.yaml, a long text and a trained run."""
    folder = tmp_path_factory.mktemp("made")
    path = corpus.make(folder)
    run("train", path, "--out", folder / "run")
    (folder / "long").write_bytes((folder / "corpus" / "test.source").read_bytes() * 30)
    return folder


def last_line(err: str) -> str:
    """The one error line, with which a command ends."""
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in err
    assert len(errors) == 1, err
    assert err.rstrip().endswith(errors[0]), err
    return errors[0]


def line_of(before: Callable[[], None], *arguments: object) -> str:
    """The one line with which a command ends, in a process of its own, after `before` in that process."""
    command = [sys.executable, "-m", "posnmt", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=before, timeout=300)
    assert done.returncode == 2, done.stderr
    return last_line(done.stderr)


def small_files(most: int) -> Callable[[], None]:
    """No file of the process may have more bytes, as on a full disk."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    return limit


@contextmanager
def limited(limit: Callable[[], None]) -> Iterator[None]:
    """This process under the limit of `small_files`, and as it was afterwards."""
    handler, limits = signal.getsignal(signal.SIGXFSZ), resource.getrlimit(resource.RLIMIT_FSIZE)
    limit()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))


def nothing() -> None:
    pass


WRITING = {
    "translate": ("translate", "{made}/run", "--input", "{made}/long", "--output", "{out}", "--beam", 1),
    "analyse": (
        "analyse", "--source", "{made}/corpus/test.source", "--reference", "{made}/corpus/test.target", "--samples", 0,
        "--output", "a={made}/corpus/test.source", "--out", "{out}",
    ),
    "export": ("export", "{made}/run", "--format", "ctranslate2", "--out", "{out}"),
    "prepare": ("prepare", "{made}/config.yaml", "--out", "{out}"),
    "artificial": ("condition", "artificial", "--out", "{out}", "--train", 1000),
    "swap": ("condition", "swap", "--source", "{made}/long", "--share", 0.5, "--out", "{out}"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITING)
def test_a_file_that_cannot_be_written_ends_in_one_line_and_leaves_nothing_half_done(
    name: str, made: Path, tmp_path: Path
) -> None:
    """One of the commands in a process of its own, whose end is seen too."""
    out = tmp_path / "out"
    arguments = [str(each).format(made=made, out=out) for each in WRITING[name]]
    if name == "translate":
        line = line_of(small_files(3000), *arguments)
    else:
        with limited(small_files(3000)):
            _, err = run(*arguments, status=2)
        line = last_line(err)
    assert "File too large" in line
    left = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".lock"] if out.is_dir() else []
    assert left == []
    assert not out.is_file()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_training_on_a_full_disk_keeps_a_checkpoint_and_goes_on_with_the_same_result(
    made: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root alone")
    try:
        out = disk / "run"
        checkpoint = _size(made / "run" / "checkpoints" / "step-00000012")
        enough = _size(made / "run" / "text") + _size(made / "run" / "tensorboard") + 3 * checkpoint + 2**16
        (disk / "other").write_bytes(b"x" * (2 * 2**20 - enough))
        line = last_line(run("train", made / "config.yaml", "--out", out, status=2)[1])
        _, kept = [each.name for each in checkpoints_in(out / "checkpoints")]
        assert f"training stopped: No space left on device; {kept} is kept" in line
        assert f"free disk space, and go on with `posnmt train --out {out} --resume`" in line
        assert list(out.rglob("*.partial")) == []
        (disk / "other").unlink()
        run("train", "--out", out, "--resume")
        assert_same(weights(out), weights(made / "run"))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
def test_a_run_that_cannot_be_begun_leaves_no_folder(made: Path, tmp_path: Path) -> None:
    line = line_of(small_files(1000), "train", made / "config.yaml", "--out", tmp_path / "run")
    assert "training stopped: File too large; no checkpoint was written yet" in line
    assert line.endswith("go on with the same command")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("output", ["--output", "standard"])
def test_a_device_that_is_full(output: str, made: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "posnmt",
        "translate",
        str(made / "run"),
        "--input",
        str(made / "long"),
        "--beam",
        "1",
    ]
    with Path("/dev/full").open("wb") as full:
        more = ["--output", "/dev/full"] if output == "--output" else []
        done = subprocess.run([*command, *more], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder on which nothing may be written, not even by root: a read-only mount, or else mode 0555."""
    folder = tmp_path / "closed"
    folder.mkdir()
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True, check=False
    ).returncode
    if not mounted:
        folder.chmod(0o555)
        if os.access(folder, os.W_OK):
            pytest.skip("this user may write everywhere, and may not mount a read-only file system")
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITING)
def test_a_folder_that_may_not_be_written(name: str, made: Path, closed: Path) -> None:
    arguments = [str(each).format(made=made, out=closed / "out") for each in WRITING[name]]
    line = line_of(nothing, *arguments)
    assert "Read-only file system" in line or "Permission denied" in line
    assert str(closed) in line


@pytest.mark.slow
def test_training_where_the_memory_is_too_small(made: Path, tmp_path: Path) -> None:
    settings = ["--set", "model.feed_forward=90000000", "--set", "train.dev_bleu=false"]
    line = line_of(little_memory, "train", made / "config.yaml", "--out", tmp_path / "run", *settings)
    assert "the memory is too small" in line
    assert "train.batch" in line
