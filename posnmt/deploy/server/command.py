"""`posnmt serve`."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn

from posnmt.base.errors import UserError, printable
from posnmt.deploy.server.app import application
from posnmt.deploy.server.clients import VARIABLE, Keys
from posnmt.deploy.server.connections import patient
from posnmt.deploy.server.glossaries import kept_in
from posnmt.deploy.server.languages import identifier
from posnmt.deploy.server.metrics import Metrics
from posnmt.deploy.server.models import Model, Models, choices, load
from posnmt.deploy.server.service import Service
from posnmt.deploy.server.settings import Settings

KERNELS = 128
"""Kernels for shapes of batches, of half a MiB each, that oneDNN and PyTorch keep; they would keep 1,024 each."""


class Server(uvicorn.Server):
    """uvicorn's server, extended: it reports when it accepts requests, and a signal ends it but not the process."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests, and then call `ready`."""
        await super().startup(sockets)
        self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down. After a second signal, also end the requests and the application, which uvicorn does not."""
        await super().shutdown(sockets)
        if self.force_exit:
            for task in self.server_state.tasks:
                task.cancel()
            await self.lifespan.shutdown()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """On the first signal accept no more requests and finish accepted ones; on a second SIGINT stop at once."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    folders: Sequence[str],
    languages: Sequence[str],
    host: str,
    port: int,
    keys: Path | None,
    engine: str | None,
    checkpoint: str,
    search: dict[str, Any],
    settings: Settings,
    print_address: Callable[[str], None],
    glossaries: Path | None = None,
) -> None:
    """Serve models until a signal.

    Args:
        folders, languages: see `models.choices`.
        host, port: the address to listen on; port 0: any free port.
        keys: a file of API keys.
        engine, checkpoint, search: see `models.load`.
        settings: limits of the server.
        print_address: called with the address when the server accepts requests.
        glossaries: the folder of glossaries; None: they are in memory alone.

    Raises:
        UserError: the address cannot be used, the file has no keys, or `models.choices`, `models.load` or
            `glossaries.kept_in` raise it.
    """
    _limit_kernels()
    chosen, known, metrics = choices(folders, languages), Keys.read(keys), Metrics()
    with kept_in(glossaries) as kept, listening(host, port) as listener:
        models = [load(choice, engine, checkpoint, search, settings, metrics) for choice in chosen]
        identifier()  # loaded now, and not by the first request
        for line in described(models):
            _say(line)
        if not known and not is_loopback(listener):
            _say(f"warning: everybody who reaches {host} can translate; set API keys by --keys FILE or {VARIABLE}")
        _allow_connections()
        served = Models(models)
        config = uvicorn.Config(
            application(Service(served, known, settings, kept), metrics),
            loop="asyncio",
            http=patient(settings.read_seconds),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=settings.behind_proxy,
            forwarded_allow_ips=["127.0.0.1", "::1"],
            timeout_keep_alive=math.ceil(settings.read_seconds) + 1,  # later than the limit of `patient`
            timeout_graceful_shutdown=settings.grace,
        )
        try:
            Server(config, lambda: print_address(address(listener))).run([listener])
        finally:
            served.close()  # a second signal ends the server without the application's own end


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


def described(models: Sequence[Model]) -> Iterator[str]:
    """A line for each model, and a note if two models have the same languages."""
    pairs: dict[tuple[str, str], str] = {}
    for model in models:
        yield f"{model.name}: {model.source} to {model.target}, {model.engine.name}"
        first = pairs.setdefault((model.source, model.target), model.name)
        if first != model.name:
            yield f"note: {model.source} to {model.target} is translated by {first} unless requests name {model.name}"


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that is bound to an address.

    Raises:
        UserError: the address cannot be used.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:  # idna refuses empty and long labels
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise UserError(f"the host has no address: {reason}", host, "choose another --host") from None
    with socket.socket(family, kind, protocol) as listener:
        if sys.platform != "win32":  # on Windows it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
            listener.listen()
        except OSError as error:
            what = f"cannot listen on this address: {error.strerror}"
            raise UserError(what, f"{host}:{port}", "choose another --port or --host") from None
        yield listener


def address(listener: socket.socket) -> str:
    """Return the URL of a listening socket; an IPv6 address is in brackets."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach a socket."""
    return ip_address(listener.getsockname()[0]).is_loopback


def _allow_connections() -> None:
    """Raise this process's limit of open connections to the maximum of the system."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows, or a limit that cannot be raised
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _limit_kernels() -> None:
    """Limit the kernels that are kept, unless the user does; both libraries read this at their first product.

    A training keeps the libraries' own limits: what fewer kernels do to its speed has not been measured.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(KERNELS))
