"""The application: it joins the interfaces, the limits of requests, and the threads of the models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi_offline import FastAPIOffline
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from posnmt.base.version import __version__
from posnmt.deploy.server import deepl, deepl_documents, deepl_glossaries, deepl_languages, libretranslate, own
from posnmt.deploy.server.bodies import Bodies
from posnmt.deploy.server.heads import Heads
from posnmt.deploy.server.metrics import Metrics
from posnmt.deploy.server.page import page
from posnmt.deploy.server.refusal import Refusal, refusal_response
from posnmt.deploy.server.service import WARNING, Service
from posnmt.deploy.server.sites import Sites


def application(service: Service, metrics: Metrics) -> FastAPI:
    """The server as an ASGI application."""

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        service.models.start()
        yield
        await service.held.close()
        service.file_readers.close()
        service.text_readers.close()
        await asyncio.to_thread(service.models.close)

    app: FastAPI = FastAPIOffline(
        title="posnmt",
        version=__version__,
        summary="Translation with the interfaces of LibreTranslate and DeepL, and one of its own",
        redoc_url=None,
        lifespan=running,
    )
    for interface in (libretranslate, deepl, deepl_documents, deepl_glossaries, deepl_languages, own):
        app.include_router(interface.routes(service))

    shown = page()

    @app.get("/", include_in_schema=False)
    async def root() -> HTMLResponse:
        return HTMLResponse(shown)

    @app.get("/metrics", include_in_schema=False)
    async def figures() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(Refusal)
    async def refused(request: Request, refusal: Refusal) -> JSONResponse:
        return refusal_response(request.url.path, refusal)

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> JSONResponse:
        return refusal_response(request.url.path, Refusal(error.status_code, error.detail, error.headers))

    paths = frozenset([*app.openapi()["paths"], "/", "/metrics", "/docs"])
    app.add_middleware(Heads)
    app.add_middleware(Sites, hosts=service.settings.hosts, origins=service.settings.origins)
    app.add_middleware(Bodies, settings=service.settings, metrics=metrics, paths=paths)
    if service.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.origins),
            allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=[WARNING, "Retry-After", "Content-Disposition"],
        )
    return app
