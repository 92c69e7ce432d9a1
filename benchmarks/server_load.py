"""What a server sustains, and what it does under four times as much: refusals, latencies and memory.

    python benchmarks/server_load.py RUN --text FILE [--seconds 60] [--overload-seconds 600] [--factor 4]
    python benchmarks/server_load.py RUN --text FILE --lines 1 --clients 0       # the latency of single lines

Starts `posnmt serve RUN` on a free port of loopback and asks its /translate, each request with a few lines of the text.
First comes one client alone. Then a fixed number of clients, each of which asks again as soon as it has its answer: the
requests answered a second are the sustainable rate. Then requests begin at `factor` times that rate whether or not
others were answered. Clients and server share the machine: for figures of the server alone, give it cores of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import aiohttp


@contextmanager
def serving(arguments: Sequence[str]) -> Iterator[str]:
    """The address of a server, which is stopped at the end."""
    command = [sys.executable, "-m", "posnmt", "serve", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                raise SystemExit("the server did not start")
            yield address
        finally:
            process.terminate()


class Client:
    """Asks the server, and notes status and seconds of every answer."""

    def __init__(self, session: aiohttp.ClientSession, address: str, lines: list[str], size: int, target: str) -> None:
        groups = [lines[start : start + size] for start in range(0, len(lines) - size + 1, size)]
        self.session, self.address, self.target = session, address, target
        self.texts = itertools.cycle(groups)
        self.seconds: dict[str, list[float]] = defaultdict(list)

    async def ask(self) -> None:
        query = {"q": next(self.texts), "source": "auto", "target": self.target}
        started = time.monotonic()
        try:
            async with self.session.post(self.address + "/translate", json=query) as answer:
                await answer.read()
                status = str(answer.status)
        except (aiohttp.ClientError, TimeoutError) as error:
            status = type(error).__name__
        self.seconds[status].append(time.monotonic() - started)

    async def megabytes(self) -> float:
        """Resident memory of the server."""
        async with self.session.get(self.address + "/metrics") as answer:
            [figure] = re.findall(r"^process_resident_memory_bytes (\S+)$", await answer.text(), re.MULTILINE)
        return float(figure) / 1e6


async def sustained(client: Client, clients: int, seconds: float) -> float:
    """Requests answered a second by clients that ask again as soon as they have their answer."""
    end = time.monotonic() + seconds

    async def one() -> None:
        while time.monotonic() < end:
            await client.ask()

    started = time.monotonic()
    await asyncio.gather(*(one() for _ in range(clients)))
    return len(client.seconds["200"]) / (time.monotonic() - started)


async def overload(client: Client, rate: float, seconds: float) -> list[float]:
    """Begin requests at a rate; the server's memory each second."""
    asked, memory = set(), []
    started = noted = time.monotonic()
    for number in itertools.count():
        if (now := time.monotonic()) - started > seconds:
            break
        if now - noted > 1:
            noted = now
            memory.append(await client.megabytes())
        task = asyncio.create_task(client.ask())
        asked.add(task)
        task.add_done_callback(asked.discard)
        await asyncio.sleep(max(0.0, started + (number + 1) / rate - time.monotonic()))
    await asyncio.gather(*asked)
    return [*memory, await client.megabytes()]


def shown(seconds: dict[str, list[float]]) -> Iterator[str]:
    """A table of answers by status."""
    total = sum(map(len, seconds.values()))
    yield "| answer | share | median | 99 % | longest |\n|---|---|---|---|---|"
    for status, each in sorted(seconds.items()):
        ordered = sorted(each)
        last = ordered[int(0.99 * (len(ordered) - 1))]
        figures = f"{statistics.median(each):.4f} s | {last:.4f} s | {ordered[-1]:.4f} s"
        yield f"| {status} | {len(each) / total:.1%} of {total:,} | {figures} |"


async def measure(address: str, options: argparse.Namespace) -> None:
    lines = options.text.read_text(encoding="utf-8").splitlines()
    limits = {"connector": aiohttp.TCPConnector(limit=0), "timeout": aiohttp.ClientTimeout(total=300)}
    async with aiohttp.ClientSession(**limits) as session:
        async with session.get(address + "/languages") as answer:
            target = (await answer.json())[0]["targets"][0]
        clients = [Client(session, address, lines, options.lines, target) for _ in range(4)]
        await sustained(clients[3], 1, 5)  # warm-up
        await sustained(clients[0], 1, options.alone_seconds)
        print(f"one client, which asks again as soon as it has its answer; {options.lines} lines a request:")
        print("\n".join(shown(clients[0].seconds)), flush=True)
        if not options.clients:
            return
        rate = await sustained(clients[1], options.clients, options.seconds)
        print(
            f"sustained: {rate:.1f} requests a second, {options.clients} clients; {await clients[1].megabytes():.0f} MB"
        )
        print("\n".join(shown(clients[1].seconds)))
        print(f"\n{options.factor:g} times that for {options.overload_seconds:g} seconds:", flush=True)
        memory = await overload(clients[2], options.factor * rate, options.overload_seconds)
        print("\n".join(shown(clients[2].seconds)))
        print(f"memory: {memory[0]:.0f} MB at first, {max(memory):.0f} MB at most, {memory[-1]:.0f} MB at the end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run, or a folder that `posnmt export` made for CTranslate2")
    parser.add_argument("--text", type=Path, required=True, help="source text, a sentence a line")
    parser.add_argument("--lines", type=int, default=5, help="of a request")
    parser.add_argument("--alone-seconds", type=float, default=20, help="of one client alone")
    parser.add_argument(
        "--clients", type=int, default=32, help="that ask at a time for the sustainable rate; 0: one alone"
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--overload-seconds", type=float, default=600)
    parser.add_argument("--factor", type=float, default=4)
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="options of `posnmt serve`")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with serving([options.run, *options.serve]) as address:
        asyncio.run(measure(address, options))


if __name__ == "__main__":
    main()
