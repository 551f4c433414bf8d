"""Serves the files of the live page, which are few, from memory."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from purgatorio.late import dataclass

STATIC: Final = Path(__file__).parent / "static"

_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page, with its headers."""

    content: bytes
    media_type: str
    etag: str


@cache
def page_files() -> dict[str, PageFile]:
    """Return all files by name. Only these are served, so no path leads outside."""
    files = {}
    for path in sorted(STATIC.iterdir()):
        media_type = _MEDIA_TYPES.get(path.suffix)
        if media_type is not None:
            content = path.read_bytes()
            files[path.name] = PageFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return files


async def index(request: Request) -> Response:
    """``GET /``: the page."""
    return _serve("index.html", request)


async def static(request: Request) -> Response:
    """``GET /static/{name}``: a file of the page."""
    return _serve(request.path_params["name"], request)


def _serve(name: str, request: Request) -> Response:
    file = page_files().get(name)
    if file is None:
        raise HTTPException(404, "there is no such file")
    # The browser revalidates its copy each time: an upgrade must not leave half of an old page.
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
