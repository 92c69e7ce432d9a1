"""Which names the server answers to, and which web pages may send it requests.

A page of any site can make its visitor's browser send requests to a server on the visitor's machine. By *DNS rebinding*
it reads the answers as well: the page's own host name is made to resolve to 127.0.0.1, so that the browser takes both
for one site. The header `Host` still has that name. Unknown names are refused, as by Jupyter; an address in digits
cannot be rebound.

Requests that cost something are also refused if a page of another site sent them. Browsers say so in `Sec-Fetch-Site`
(https://www.w3.org/TR/fetch-metadata/) or, if it is absent, in `Origin`; Go's `http.CrossOriginProtection` decides in
the same order. Other programs send neither.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from posnmt.deploy.server.refusal import Refusal, refusal_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

FREE = ("GET", "HEAD", "OPTIONS")
"""Methods of requests that translate nothing. Any page may send them; CORS decides whether it may read the answer."""


class Sites:
    """Middleware that refuses unknown host names and requests of other sites' pages (403).

    Args:
        hosts: host names that are answered beside this machine's own; `*`: all.
        origins: sites whose pages may send requests; `*`: all.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self.app = app
        self.hosts = {name.lower().rstrip(".") for name in (*hosts, socket.gethostname())}
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is refused with the refusal; pass every other one on."""
        if scope["type"] == "http" and (refusal := self._refusal(scope["method"], Headers(scope=scope))):
            await refusal_response(scope["path"], refusal)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> Refusal | None:
        hosts = headers.getlist("host")
        for host in hosts:
            if not self._known(host):
                return Refusal(
                    403, f"this server is not known as {host!r}; its operator may start it with --allow-host"
                )
        if method in FREE or "*" in self.origins:
            return None
        relation, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if relation is None:  # not a browser, or one that does not take this address for safe
            own = origin is None or origin.partition("://")[2].lower() in map(str.lower, hosts)
        else:
            own = relation in ("same-origin", "none")
        if own or origin in self.origins:
            return None
        site = origin or "another site"
        return Refusal(
            403, f"pages of {site} may not send requests; the operator may start the server with --allow-origin"
        )

    def _known(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:  # a bracket without its partner
            return False
        if "*" in self.hosts or name in self.hosts or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return True
