"""The answer with a translated document."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from urllib.parse import quote

from fastapi.responses import Response


def download(name: str, content: bytes, headers: Mapping[str, str]) -> Response:
    """A document as a file to save. A browser does not show it: its scripts would act as this server's own.

    Args:
        name: the name of the file.
    """
    return Response(
        content,
        headers={
            "Content-Type": mimetypes.guess_type(name)[0] or "application/octet-stream",
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox",
            **headers,
        },
    )
