"""DeepL's interface for what the server can do: languages, usage, and what it has not."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field

from posnmt.config.writing import base_code
from posnmt.deploy.server.deepl import ERRORS
from posnmt.deploy.server.deepl_glossaries import pairs_with_terms
from posnmt.deploy.server.fields import Body, read
from posnmt.deploy.server.languages import language_name
from posnmt.deploy.server.refusal import Refusal
from posnmt.deploy.server.service import Service

UNLIMITED = 1_000_000_000_000
"""The character limit that DeepL states for accounts without a limit."""

RESOURCES = {
    "translate_text": {"tag_handling": "both", "glossary": "both", "auto_detection": "source"},
    "translate_document": {"glossary": "both", "auto_detection": "source"},
    "glossary": {},
}
"""What the server has of DeepL's resources, each with its features, and which languages must have them."""

ABSENT = {
    "texts are not rephrased or corrected here": ["/v2/write/{rest:path}"],
    "style rules are not supported by this server": ["/v3/style_rules", "/v3/style_rules/{rest:path}"],
    "translation memories are not supported by this server": ["/v3/translation_memories"],
    "speech is not translated here": ["/v3/voice/{rest:path}"],
    "keys are managed by the operator of this server": ["/v2/admin/{rest:path}"],
}
"""What is said of DeepL's other paths."""


class LanguagesQuery(Body):
    """A choice of languages to list."""

    type: str = Field("source", pattern="^(source|target)$")
    auth_key: str | None = None


class UsageQuery(Body):
    """The key whose usage is requested."""

    auth_key: str | None = None


class ResourceQuery(Body):
    """The use of languages to list."""

    resource: Literal["translate_text", "translate_document", "glossary"]
    include: Annotated[
        list[Literal["beta", "external"]], BeforeValidator(lambda each: [each] if isinstance(each, str) else each)
    ] = Field([], description="no effect: there are no such languages")


def routes(service: Service) -> APIRouter:
    """The routes for languages and usage."""
    router = APIRouter(tags=["DeepL"])

    @router.get("/v2/languages", responses=ERRORS)
    async def list_languages(request: Request) -> list[dict[str, Any]]:
        """List the source languages or the target languages."""
        query = await read(request, LanguagesQuery)
        service.client(request, query.auth_key)
        codes = service.models.sources if query.type == "source" else service.models.targets
        formality = {"supports_formality": False} if query.type == "target" else {}
        return [{"language": code.upper(), "name": language_name(code), **formality} for code in codes]

    @router.get("/v3/languages", responses=ERRORS)
    async def languages_of_a_resource(request: Request) -> list[dict[str, Any]]:
        """List the languages with what can be done with them."""
        query = await read(request, ResourceQuery)
        service.client(request)
        pairs = pairs_with_terms(service)
        sources, targets = service.models.sources, service.models.targets
        if query.resource == "glossary":
            sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        with_terms = {code for pair in pairs for code in pair}
        listed = []
        for code in dict.fromkeys([*sources, *targets]):
            has = {"glossary": base_code(code) in with_terms, "auto_detection": code in sources}
            features = [name for name in RESOURCES[query.resource] if has.get(name, True)]
            listed.append(
                {
                    "lang": code,
                    "name": language_name(code),
                    "usable_as_source": code in sources,
                    "usable_as_target": code in targets,
                    "status": "stable",
                    "features": {name: {"status": "stable"} for name in features},
                }
            )
        return listed

    @router.get("/v3/languages/resources", responses=ERRORS)
    async def resources(request: Request) -> list[dict[str, Any]]:
        """List what can be done with languages."""
        service.client(request)
        return [
            {"name": name, "features": [{"name": each, **_needs(who)} for each, who in features.items()]}
            for name, features in RESOURCES.items()
        ]

    @router.get("/v2/usage", responses=ERRORS)
    async def usage(request: Request) -> dict[str, int]:
        """Count the characters translated since the start for this key, or for all clients if there are no keys."""
        query = await read(request, UsageQuery)
        client = service.client(request, query.auth_key)
        return {"character_count": service.used(client), "character_limit": UNLIMITED}

    for what, paths in ABSENT.items():
        for path in paths:
            router.add_api_route(
                path, _refusing(what), methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
            )
    return router


def _needs(who: str) -> dict[str, bool]:
    """Which languages must have a feature."""
    return {f"needs_{each}_support": True for each in ("source", "target") if who in (each, "both")}


def _refusing(what: str) -> Any:
    """A route that refuses every request by a sentence."""

    async def refuse() -> None:
        raise Refusal(404, what)

    return refuse
