"""`posnmt serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from posnmt.base.extras import requires
from posnmt.cli.group import COMMAND, NumberRange, allow_plugins, choose_checkpoint, loading
from posnmt.cli.help import option
from posnmt.cli.search import SearchCommand, chosen_search
from posnmt.translate.engines import ENGINES


@click.command(cls=SearchCommand, mark="server", before="engine", heading="Share", context_settings=COMMAND)
@click.argument("models", metavar="[NAME=]RUN...", nargs=-1, required=True)
@option("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all addresses", heading="Address")
@option("--port", type=click.IntRange(0, 65535), default=5000, help="port; 0: any free one", heading="Address")
@option(
    "--languages",
    multiple=True,
    metavar="[NAME=]SOURCE-TARGET",
    help="languages of a model, such as en-de or pt-BR:en; default: those of the run's config",
    heading="Model",
)
@option(
    "--keys",
    type=click.Path(path_type=Path),
    help="a file of API keys, one `KEY NAME` per line; POSNMT_API_KEYS can hold more, separated by commas; default:"
    " everybody may translate",
    heading="Access",
)
@option(
    "--glossaries",
    type=click.Path(path_type=Path, file_okay=False),
    help="a folder for the glossaries that clients of DeepL's interface make; default: none, glossaries last until the "
    "server ends",
    heading="Access",
    common=False,
)
@option(
    "--rate",
    type=click.IntRange(min=1),
    metavar="N",
    help="limit of requests per minute for each API key, or for each address; default: no limit",
    heading="Access",
)
@option(
    "--rate-characters",
    type=click.IntRange(min=1),
    metavar="N",
    help="the same for characters per minute; default: no limit",
    heading="Access",
    common=False,
)
@option(
    "--max-bytes",
    "request_bytes",
    type=click.IntRange(min=1),
    default=1 << 20,
    help="most bytes of a request",
    heading="Limits",
    common=False,
)
@option(
    "--max-characters",
    "request_characters",
    type=click.IntRange(min=1),
    default=50_000,
    help="most characters of a request's texts",
    heading="Limits",
    common=False,
)
@option(
    "--max-lines",
    "request_lines",
    type=click.IntRange(min=1),
    default=1000,
    help="most lines of a request's texts",
    heading="Limits",
    common=False,
)
@option(
    "--max-line-characters",
    "line_characters",
    type=click.IntRange(min=1),
    default=3000,
    help="most characters of a line; a translation is finished while somebody waits for it, so a long line delays all",
    heading="Limits",
    common=False,
)
@option(
    "--queue",
    "queue_characters",
    type=click.IntRange(min=1),
    default=200_000,
    help="most characters waiting for a model; requests beyond it get status 429",
    heading="Limits",
    common=False,
)
@option(
    "--batch-characters",
    type=click.IntRange(min=1),
    default=8000,
    help="most characters that are translated at a time",
    heading="Limits",
    common=False,
)
@option(
    "--timeout",
    type=NumberRange(min=0, min_open=True),
    default=60.0,
    help="seconds from a request's acceptance to its translation",
    heading="Limits",
    common=False,
)
@option(
    "--read-timeout",
    "read_seconds",
    type=NumberRange(min=0, min_open=True),
    default=20.0,
    help="seconds for the head of a request to arrive, and again for its body",
    heading="Limits",
    common=False,
)
@option(
    "--grace",
    type=click.IntRange(min=0),
    default=30,
    help="seconds to finish accepted requests after SIGTERM or Ctrl-C",
    heading="Limits",
    common=False,
)
@option(
    "--behind-proxy",
    is_flag=True,
    help="trust the client addresses that a proxy on this machine sends (X-Forwarded-For)",
    heading="Address",
    common=False,
)
@option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="a web site whose pages may use the server, such as https://example.org; *: all sites; default: none",
    heading="Address",
)
@option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="a name that the server is called by, in addition to this machine's own; *: all names; default: none",
    heading="Address",
    common=False,
)
@option(
    "--engine",
    type=click.Choice(list(ENGINES)),
    help="the program that translates; default: as in `posnmt translate`",
    heading="Model",
)
@choose_checkpoint
@allow_plugins
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    languages: tuple[str, ...],
    keys: Path | None,
    glossaries: Path | None,
    engine: str | None,
    checkpoint: str,
    **options: Any,
) -> None:
    """Translate over HTTP for LibreTranslate's and DeepL's clients.

    RUN is a run folder, or a folder that `posnmt export` made for CTranslate2. The server has the interfaces of
    LibreTranslate (/translate, /languages, /detect) and DeepL (/v2/translate), and its own with n-best lists and scores
    (/v1/translate); /docs describes all of them. It prints its address when it is ready. After SIGTERM or Ctrl-C it
    answers accepted requests and ends. It needs pip install "posnmt[serve]".

    \b
    Example: posnmt serve runs/mine --port 5000
    """
    requires("serve")
    with loading():
        from posnmt.deploy.server.command import serve as run
        from posnmt.deploy.server.settings import Settings

    search = chosen_search(options, "server")
    run(models, languages, host, port, keys, engine, checkpoint, search, Settings(**options), click.echo, glossaries)
