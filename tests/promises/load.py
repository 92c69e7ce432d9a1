"""Mixed load on `posnmt serve`: answers by status, and the server's memory.

`python -m tests.promises.load 600` asks a server with a small trained model for 600 seconds, by four clients of one
process: texts of all interfaces, forms, n-best lists, requests that are wrong, too large or no HTTP, and clients that
leave. It prints the server's resident memory each minute, and ends with the counts and with the exit status.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.support.serving import Serving, http_request
from tests.support.untrained import LEARNED

WORDS = ["uns", "mebu", "zabi", "lo", "dumo", "fa", "kiro", "{x}", "12", "<b>a</b>", "?"]


def text(drawn: random.Random) -> str:
    """A line of 1 to 30 words."""
    return " ".join(drawn.choices(WORDS, k=drawn.randint(1, 30)))


def pair(drawn: random.Random, **more: Any) -> dict[str, Any]:
    """The fields of a request for LibreTranslate's interface."""
    return {"q": [text(drawn) for _ in range(drawn.randint(1, 5))], "source": "en", "target": "de", **more}


def leave(server: Serving, drawn: random.Random) -> str:
    """Send a request, or a part of it, and go."""
    content = http_request("/translate", pair(drawn))
    with server.connect() as connection:
        connection.sendall(content[: drawn.randint(1, len(content))])
        time.sleep(drawn.uniform(0, 0.2))
    return "left"


def answered(path: str, fields: Callable[[random.Random], Any]) -> Callable[[Serving, random.Random], str]:
    """A request of JSON; what it does is its status."""
    return lambda server, drawn: str(server.post(path, fields(drawn))[0])


def sent(path: str, content: bytes, kind: str = "application/json") -> Callable[[Serving, random.Random], str]:
    """A request of bytes."""
    return lambda server, drawn: str(server.post(path, data=content, headers={"Content-Type": kind})[0])


FORM = "application/x-www-form-urlencoded"

REQUESTS: tuple[Callable[[Serving, random.Random], str], ...] = (
    answered("/translate", pair),
    answered("/translate", lambda drawn: pair(drawn, alternatives=3)),
    answered("/translate", lambda drawn: pair(drawn, source="auto")),
    answered("/v2/translate", lambda drawn: {"text": [text(drawn)], "target_lang": "DE"}),
    answered("/v1/translate", lambda drawn: {"text": text(drawn), "nbest": 2, "beam": drawn.randint(2, 8)}),
    answered("/detect", lambda drawn: {"q": text(drawn)}),
    sent("/translate", b"q=uns&source=en&target=de", FORM),
    sent("/translate", b"q=%ff&source=en&target=de", FORM),
    sent("/translate", b"{"),
    sent("/translate", b'{"q":' + b"[" * 10_000),
    sent("/translate", b'{"q":[' + b"1," * 100_000 + b'1],"source":"en","target":"de"}'),
    sent("/translate", b" " * (3 << 20)),
    answered("/translate", lambda drawn: {**pair(drawn), "target": "xx"}),
    answered("/translate", lambda drawn: {**pair(drawn), "q": "a" * 5000}),
    lambda server, drawn: str(server.get("/languages")[0]),
    lambda server, drawn: str(server.get(f"/{drawn.random()}")[0]),
    leave,
)


def memory(server: Serving) -> float:
    """MiB of the server's resident memory."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def loaded(server: Serving, seconds: float, seed: int, say: Callable[[str], None]) -> Counter[str]:
    """Ask a server for so many seconds; how often each answer came."""
    ends, end = list[str](), time.monotonic() + seconds

    def ask(number: int) -> None:
        drawn = random.Random(seed + number)
        while time.monotonic() < end:
            try:
                ends.append(drawn.choice(REQUESTS)(server, drawn))
            except OSError as error:
                ends.append(type(error).__name__)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        say(f"{memory(server):,.0f} MiB after {len(ends):,} requests")
        threads[0].join(min(60.0, max(1.0, end - time.monotonic())))
    return Counter(ends)


def main() -> None:
    """Load a server, and print what came of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("seconds", type=float)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    server = Serving(LEARNED)
    counts = loaded(server, given.seconds, given.seed, lambda line: print(line, flush=True))
    print(f"{memory(server):,.0f} MiB at the end; {json.dumps(dict(sorted(counts.items())))}", flush=True)
    print(f"exit status {server.end()}; {server.err!r}")


if __name__ == "__main__":
    main()
