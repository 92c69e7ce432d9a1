"""A real Slurm of one machine, for the tests: munge, MariaDB, slurmdbd, slurmctld and a slurmd a node, on loopback.

`python tests/slurm/cluster.py install | start | stop | status | run COMMAND …`. Everything the cluster writes lies in
one folder (`--state`), and programs find it by the variable SLURM_CONF, so that a Slurm that is set up on the machine
is neither read nor changed. The nodes are as many slurmd of this machine, each with all of its processors, a share of
its memory and two devices that stand in for GPUs. See benchmarks/notes/slurm.md.
"""

from __future__ import annotations

import argparse
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from string import Template

from posnmt.base.errors import UserError

HERE = Path(__file__).parent
PACKAGES = ["slurm-wlm", "slurmdbd", "munge", "mariadb-server"]
PROGRAMS = ["munged", "munge", "mariadb-install-db", "mariadbd", "mariadb-admin", "slurmdbd", "slurmctld", "slurmd"]
MARK = "cluster-of-posnmt"  # a file that says that a folder is ours to empty
SECONDS = 30  # that a daemon may take to be ready, and to stop


@dataclass(frozen=True)
class Daemon:
    """A program of the cluster, in the foreground of a session of its own; its log and process id are in files."""

    name: str
    command: list[str]
    ready: Callable[[], bool]


class Cluster:
    """The cluster in a folder.

    Args:
        state: the folder; it need not exist.
        nodes: how many nodes it is to have; those that it has, or one, when nothing is said.
    """

    def __init__(self, state: Path, nodes: int | None = None) -> None:
        self.state, self.conf = state, state / "slurm.conf"
        self.environment = {
            **os.environ,
            "PATH": _path(),
            "SLURM_CONF": str(self.conf),
            "MYSQL_UNIX_PORT": str(state / "mariadb" / "socket"),
        }
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.host = socket.gethostname().split(".")[0]
        self._count = nodes

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes: those of the configuration, once there is one."""
        if self.conf.exists():
            lines = self.conf.read_text().splitlines()
            return [line.split()[0].removeprefix("NodeName=") for line in lines if line.startswith("NodeName=")]
        # The first bears the name of the machine, which can be looked up: several nodes meet at the first one.
        return [self.host, *(f"{self.host}-{number}" for number in range(2, (self._count or 1) + 1))]

    def daemons(self) -> list[Daemon]:
        """All of them, in the order in which they start."""
        key, database = self.state / "munge", self.state / "mariadb"
        munge = ["munged", "--foreground", f"--socket={key}/socket", f"--key-file={key}/key", f"--pid-file={key}/pid"]
        mariadb = ["mariadbd", "--no-defaults", f"--datadir={database}/data", f"--socket={database}/socket"]
        mariadb += [f"--user={self.user}", "--skip-networking", "--innodb-lock-wait-timeout=900"]
        ping = ["mariadb-admin", "--no-defaults", f"--socket={database}/socket", "ping"]
        registered = ["sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=ControlHost"]
        return [
            Daemon(
                "munged",
                [*munge, f"--log-file={key}/log", f"--seed-file={key}/seed"],
                lambda: self._answers(["munge", "-S", f"{key}/socket", "-n"]) is not None,
            ),
            Daemon("mariadbd", mariadb, lambda: self._answers(ping) is not None),
            Daemon("slurmdbd", ["slurmdbd", "-D"], lambda: self._answers(registered) is not None),
            Daemon("slurmctld", ["slurmctld", "-D", "-i"], lambda: bool((self._answers(registered) or "").strip())),
            *(
                Daemon(f"slurmd-{node}", ["slurmd", "-D", "-N", node], lambda node=node: self._node(node) == "idle")
                for node in self.nodes
            ),
        ]

    def start(self) -> bool:
        """Start it anew, unless all of it runs; whether it had to be.

        Raises:
            UserError: a program is missing, the folder is not ours, it runs with another number of nodes, or a daemon
                does not come up.
        """
        if all(self.process(daemon.name) for daemon in self.daemons()):
            if self._count not in (None, len(self.nodes)):
                raise UserError(f"the cluster runs with {len(self.nodes)} nodes", self.state, "stop it first")
            return False
        self.stop()
        self._check()
        try:
            self._write()
            for daemon in self.daemons():
                self._start(daemon)
        except BaseException:
            self.stop()
            raise
        return True

    def stop(self) -> None:
        """Cancel the jobs and stop every daemon, the last started first; the logs stay.

        Raises:
            UserError: the cluster is another user's, or a daemon does not stop.
        """
        ours = (self.state / MARK).exists()
        if ours and self.state.stat().st_uid != os.getuid():
            raise UserError("the cluster belongs to another user", self.state, "give --state another folder")
        if self.process("slurmctld"):
            # The jobs are children of slurmstepd, which outlives slurmd.
            self._answers(["scancel", "--user", self.user])
            _wait(lambda: not self._answers(["squeue", "--noheader"]))
        for daemon in reversed(self.daemons()):
            if process := self.process(daemon.name):
                os.kill(process, signal.SIGTERM)
                if not _wait(lambda name=daemon.name: self.process(name) is None):
                    raise UserError(f"{daemon.name} does not stop", f"process {process}", "end it by hand")
        if ours:
            for path in self.state.iterdir():
                if path.name not in (MARK, "log"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def process(self, name: str) -> int | None:
        """The process id of a daemon; None when it does not run."""
        try:
            process = int((self.state / f"{name}.process").read_text())
            # The number may be another program's by now.
            ours = f"SLURM_CONF={self.conf}".encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            dead = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (OSError, ValueError):
            return None
        return process if ours and not dead else None

    def _check(self) -> None:
        if missing := missing_programs():
            todo = f"run `python {HERE / 'cluster.py'} install` as root, or install {' '.join(PACKAGES)}"
            raise UserError(f"programs of Slurm are missing: {', '.join(missing)}", None, todo)
        if len(str(self.state)) > 80:  # the name of a socket has at most 107 bytes
            raise UserError("the folder's name is longer than 80 characters", self.state, "give --state a shorter one")
        if self.state.is_file():
            raise UserError("a file stands where the cluster's folder should be", self.state, "give --state another")
        if self.state.exists() and any(self.state.iterdir()) and not (self.state / MARK).exists():
            raise UserError("the folder is not empty, nor that of a cluster", self.state, "give --state another")

    def _write(self) -> None:
        """The folder with key, database and configuration, as they are before the first start."""
        self.state.mkdir(parents=True, exist_ok=True, mode=0o755)
        (self.state / MARK).touch()
        shutil.rmtree(self.state / "log", ignore_errors=True)
        for name in ("log", "munge", "mariadb", "slurmdbd", "slurmctld", "slurmd"):
            (self.state / name).mkdir()
        (self.state / "munge").chmod(0o755)
        key = self.state / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        make = ["mariadb-install-db", "--no-defaults", f"--datadir={self.state}/mariadb/data", "--skip-test-db"]
        make += [f"--user={self.user}", "--auth-root-authentication-method=socket"]
        made = self._run([*make, f"--auth-root-socket-user={self.user}"])
        if made.returncode:
            raise UserError("the database cannot be made", self.state, f"it says: {_last_line(made.stdout)}")

        # Slurm can listen on one address alone only if it is that of the machine's name. Where that is not loopback, it
        # listens on all of them, and munge's key keeps others out.
        address, listening = _address(self.host), "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"
        if not address.startswith("127."):
            address, listening = "127.0.0.1", ""
        with ExitStack() as open_together:  # all at once, so that they differ
            ports = _free_ports(2 + len(self.nodes), open_together)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 // len(self.nodes)
        filled = {
            "state": str(self.state),
            "host": self.host,
            "address": address,
            "listening": listening,
            "user": self.user,
            "slurmctld_port": next(ports),
            "slurmdbd_port": next(ports),
            "nodes": "\n".join(
                f"NodeName={node} NodeHostname={self.host} NodeAddr={address} Port={next(ports)} "
                f"CPUs={os.cpu_count()} RealMemory={memory} Gres=gpu:2 State=UNKNOWN"
                for node in self.nodes
            ),
        }
        for name, mode in {"slurm.conf": 0o644, "slurmdbd.conf": 0o600}.items():
            (self.state / name).touch(mode=mode)
            (self.state / name).write_text(Template((HERE / f"{name}.in").read_text()).substitute(filled))
        # Devices that every machine has: Slurm only counts them and sets CUDA_VISIBLE_DEVICES.
        (self.state / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")

    def _start(self, daemon: Daemon) -> None:
        log = self.state / "log" / daemon.name
        with log.open("wb") as out:
            process = subprocess.Popen(
                daemon.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.environment,
                cwd=self.state,
                start_new_session=True,
            )
        (self.state / f"{daemon.name}.process").write_text(str(process.pid))
        if not _wait(lambda: process.poll() is not None or daemon.ready()) or process.poll() is not None:
            ended = "ended" if process.poll() is not None else f"is not ready after {SECONDS} seconds"
            raise UserError(
                f"{daemon.name} {ended}: {_last_line(log.read_text(errors='replace'))}", log, "read the log"
            )

    def _node(self, node: str) -> str:
        """The state of a node, as sinfo calls it."""
        return (self._answers(["sinfo", "--noheader", f"--nodes={node}", "--format=%T"]) or "").strip()

    def _answers(self, command: list[str]) -> str | None:
        """What a command prints; None when it fails."""
        done = self._run(command)
        return done.stdout if done.returncode == 0 else None

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * SECONDS,
        )


def _path() -> str:
    """Where programs are looked for: also where Debian has daemons, which is not on everybody's path."""
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def missing_programs() -> list[str]:
    """What a cluster needs and the machine does not have."""
    return [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]


def _free_ports(count: int, held: ExitStack) -> Iterator[int]:
    """Free ports, kept from others until `held` is closed."""
    sockets = [held.enter_context(socket.socket()) for _ in range(count)]
    for each in sockets:
        each.bind(("", 0))
    return iter([each.getsockname()[1] for each in sockets])


def _address(host: str) -> str:
    """The address of a name; nothing when it has none."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return ""


def _wait(true: Callable[[], bool]) -> bool:
    """Whether it comes true in time."""
    end = time.monotonic() + SECONDS
    while not (came := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return came


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[-1]


def install() -> None:
    """Install Debian's packages, unless all programs are there.

    Raises:
        UserError: there is no apt-get, the user is not root, or apt-get fails.
    """
    if not missing_programs():
        return
    if shutil.which("apt-get") is None:
        raise UserError("there is no apt-get", None, f"install what your system calls {' '.join(PACKAGES)}")
    if os.getuid() != 0:
        raise UserError("only root may install", f"user {os.getuid()}", f"sudo apt-get install {' '.join(PACKAGES)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(["apt-get", "--quiet=2", *command], env=environment, stdout=sys.stderr)
        if done.returncode:
            raise UserError(f"apt-get {command[0]} ended with status {done.returncode}", None, "see what it says above")


def status(cluster: Cluster) -> int:
    """Print a line a daemon; 0 when all of them run, 3 as init scripts have it when not."""
    processes = {daemon.name: cluster.process(daemon.name) for daemon in cluster.daemons()}
    for name, process in processes.items():
        print(f"{name:<20}{f'runs, process {process}' if process else 'stopped'}")
    if not all(processes.values()):
        return 3
    print(f"export SLURM_CONF={cluster.conf}")
    return 0


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--state", type=Path, default=Path(tempfile.gettempdir()) / "posnmt-slurm", metavar="FOLDER")
    parser.add_argument("--nodes", type=int, choices=range(1, 10), metavar="N", help="how many: 1 to 9; 1 unless told")
    parser.add_argument("do", choices=["install", "start", "stop", "status", "run"])
    parser.add_argument("command", nargs=argparse.REMAINDER, help="for run: a command that needs the cluster")
    asked = parser.parse_args()
    if bool(asked.command) != (asked.do == "run"):
        parser.error("`run`, and only `run`, takes a command")
    cluster = Cluster(asked.state.absolute(), asked.nodes)
    match asked.do:
        case "install":
            install()
        case "start":
            cluster.start()
            return status(cluster)
        case "stop":
            cluster.stop()
        case "status":
            return status(cluster)
        case "run":
            started = cluster.start()
            try:
                return subprocess.run(asked.command, env=cluster.environment).returncode
            finally:
                if started:
                    cluster.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
