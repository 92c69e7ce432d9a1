"""Read and check the fields of a request, from a form or from JSON."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, TypeVar, get_args
from urllib.parse import parse_qsl

import python_multipart  # noqa: F401  so that its absence is noticed at the start, not at the first form
from fastapi import Request
from pydantic import BaseModel, ValidationError, ValidationInfo, field_validator
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from posnmt.base.errors import quoted
from posnmt.config.numbers import in_digits
from posnmt.deploy.server.refusal import Refusal


class Body(BaseModel):
    """The fields of a request. Those of a form are text, which pydantic turns into numbers and booleans."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        kinds = {annotation, *get_args(annotation)}
        if isinstance(value, bool) and bool not in kinds:
            raise ValueError("input should not be a boolean")
        if isinstance(value, int | float) and not isinstance(value, bool) and bool in kinds and int not in kinds:
            raise ValueError("input should be a boolean, not a number")
        if isinstance(value, str) and str not in kinds and kinds & {int, float}:
            in_digits(value)
        if isinstance(value, list) and list[str] in kinds and not all(isinstance(each, str) for each in value):
            raise ValueError("input should be a text, or a list of texts")  # pydantic would keep a fault for each
        return value


Fields = TypeVar("Fields", bound=Body)

MOST_FIELDS = 1000
"""Most fields of a request. Starlette has the same limit for multipart forms."""


SHOWN_FIELDS = 5
"""Unknown fields that a warning names."""


async def read(request: Request, model: type[Fields]) -> Fields:
    """The fields of a request, from its body and its URL. If both have a field, the body's is used.

    Raises:
        Refusal: the body cannot be read, or a field is missing, wrong, or unknown to a model that forbids others.
    """
    return _checked({**_values(request.query_params.multi_items()), **await _body(request)}, model)


async def read_upload(request: Request, model: type[Fields]) -> tuple[Fields, str, bytes]:
    """The fields of a multipart form, and the name and the bytes of its `file`.

    Raises:
        Refusal: as `read`; or the body is another one, or has not exactly one file that is called so.
    """
    if _kind(request) != "multipart/form-data":
        raise Refusal(400, "Invalid request: a document is sent as multipart/form-data, with the field `file`")
    items = await _multipart(request)
    texts = [(name, value) for name, value in items if isinstance(value, str)]
    values = {**_values(request.query_params.multi_items()), **_values(texts)}
    files = [(name, value) for name, value in items if isinstance(value, UploadFile)]
    if [name for name, _ in files] != ["file"] or not files[0][1].filename:
        raise Refusal(400, "Invalid request: file: one file with a name is required")
    [(_, file)] = files
    return _checked(values, model), str(file.filename), await file.read()


def _checked(values: dict[str, Any], model: type[Fields]) -> Fields:
    """Values as fields of a model.

    Raises:
        Refusal: see `read`.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        name, owner = _place(problem["loc"], model)
        if problem["type"] == "extra_forbidden":
            known = ", ".join(owner.model_fields)
            raise Refusal(400, f"Invalid request: no field is called {quoted(name)}; choose from: {known}") from None
        raise Refusal(400, f"Invalid request: {name}: {problem['msg'].removeprefix('Value error, ').lower()}") from None


def _place(place: tuple[int | str, ...], model: type[BaseModel]) -> tuple[str, type[BaseModel]]:
    """The name of a field with a fault, and the model that it belongs to: of one in a list of models, its own."""
    match place:
        case [str(name), int(number), str(inner), *_]:
            return f"{name}[{number}].{inner}", get_args(model.model_fields[name].annotation)[0]
        case _:
            return str(place[0]) if place else "body", model


def unknown(query: Body, known: Collection[str] = ()) -> list[str]:
    """A sentence about fields that the interface does not know, if there are any. The services pass over these.

    Args:
        query: of a model that allows other fields.
        known: other fields that the interface knows.
    """
    names = [each for each in query.model_extra or {} if each not in known]
    shown = ", ".join(map(quoted, names[:SHOWN_FIELDS])) + " and others" * (len(names) > SHOWN_FIELDS)
    return [f"fields without effect, as the interface does not know them: {shown}"] if names else []


def _kind(request: Request) -> str:
    """The media type of a body, in small letters."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


async def _multipart(request: Request) -> list[tuple[str, UploadFile | str]]:
    """The fields of a multipart form.

    Raises:
        Refusal: it cannot be read.
    """
    try:
        return (await request.form(max_fields=MOST_FIELDS)).multi_items()
    except HTTPException as error:
        raise Refusal(400, f"Invalid request: {error.detail}") from None


async def _body(request: Request) -> dict[str, Any]:
    """The fields of a body, a form or JSON; raises a Refusal for anything else."""
    kind = _kind(request)
    if kind == "application/x-www-form-urlencoded":
        return _values(_form(await request.body()))
    if kind == "multipart/form-data":
        items = await _multipart(request)
        if any(not isinstance(value, str) for _, value in items):
            raise Refusal(400, "Invalid request: files are not translated here")
        return _values([(name, str(value)) for name, value in items])
    body = await request.body()
    if not body:
        return {}
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"Invalid request: the body is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise Refusal(400, "Invalid request: the body is not a JSON object")
    if len(tree) > MOST_FIELDS:
        raise Refusal(400, f"Invalid request: more than {MOST_FIELDS:,} fields")
    return tree


def _form(body: bytes) -> list[tuple[str, str]]:
    """The fields of a form, read as UTF-8, which `curl -d` sends. Starlette would read it as Latin-1.

    Raises:
        Refusal: the form is not UTF-8, or has too many fields.
    """
    try:
        return parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except UnicodeDecodeError:
        raise Refusal(400, "Invalid request: the form is not UTF-8") from None
    except ValueError:
        raise Refusal(400, f"Invalid request: more than {MOST_FIELDS:,} fields") from None


def _values(items: list[tuple[str, str]]) -> dict[str, Any]:
    """Name → value; a list of values if the field occurs several times."""
    values: dict[str, list[str]] = {}
    for name, value in items:
        values.setdefault(name, []).append(value)
    return {name: each if len(each) > 1 else each[0] for name, each in values.items()}


def body_of(model: type[BaseModel], file: bool = False) -> dict[str, Any]:
    """The description of a request's body for OpenAPI.

    Args:
        file: whether it is a form with a document in the field `file`.
    """
    kinds = ["multipart/form-data"] if file else ["application/json", "application/x-www-form-urlencoded"]
    schema = model.model_json_schema()
    if file:
        schema["properties"]["file"] = {"type": "string", "format": "binary", "description": "the document"}
        schema["required"] = ["file", *schema.get("required", [])]
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
