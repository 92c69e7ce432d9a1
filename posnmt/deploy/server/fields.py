"""The fields of a request, from a form or from JSON, checked."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import python_multipart  # noqa: F401  missed now, and not when the first form comes
from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from posnmt.deploy.server.refusal import Refusal

Fields = TypeVar("Fields", bound=BaseModel)


async def read(request: Request, model: type[Fields]) -> Fields:
    """The fields of a request: those of its body, and of its address for those that the body does not have.

    Raises:
        Refusal: a body that is none, or a field that is missing or wrong.
    """
    values = {**_values(request.query_params.multi_items()), **await _body(request)}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        name = str(problem["loc"][0]) if problem["loc"] else "body"
        raise Refusal(400, f"Invalid request: {name}: {problem['msg'].lower()}") from None


async def _body(request: Request) -> dict[str, Any]:
    """The fields of a body."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        try:
            items = (await request.form()).multi_items()
        except HTTPException as error:
            raise Refusal(400, f"Invalid request: {error.detail}") from None
        if any(not isinstance(value, str) for _, value in items):
            raise Refusal(400, "Invalid request: files are not translated here")
        return _values([(name, str(value)) for name, value in items])
    body = await request.body()
    if not body:
        return {}
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"Invalid request: the body is no JSON: {error}") from None
    if not isinstance(tree, dict):
        raise Refusal(400, "Invalid request: the body is no JSON object")
    return tree


def _values(items: list[tuple[str, str]]) -> dict[str, Any]:
    """Fields by name; those that occur several times are lists."""
    values: dict[str, list[str]] = {}
    for name, value in items:
        values.setdefault(name, []).append(value)
    return {name: each if len(each) > 1 else each[0] for name, each in values.items()}


def body_of(model: type[BaseModel], form: bool = True) -> dict[str, Any]:
    """The description of a request's body for OpenAPI."""
    kinds = ["application/json", *(["application/x-www-form-urlencoded"] if form else [])]
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
