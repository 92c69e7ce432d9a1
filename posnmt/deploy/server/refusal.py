"""Errors of requests, which are answered in the form of the request's interface."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.responses import JSONResponse


class Refusal(Exception):
    """An error of a request.

    Args:
        status: HTTP status.
        message: what is wrong and what to do.
        headers: headers of the response.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def refusal_response(path: str, refusal: Refusal) -> JSONResponse:
    """The response for an error. Its key is `message` in DeepL's interface and `error` in the others."""
    key = "message" if path.startswith(("/v2/", "/v3/")) else "error"
    message = refusal.message.encode("utf-8", "backslashreplace").decode()  # it may quote half of a surrogate pair
    return JSONResponse({key: message}, refusal.status, refusal.headers)


def later(message: str, seconds: float) -> Refusal:
    """The refusal of a request that may be sent again after some seconds."""
    return Refusal(429, message, {"Retry-After": str(max(1, round(seconds)))})
