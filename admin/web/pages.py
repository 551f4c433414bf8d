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
def page_files(folder: Path = STATIC) -> dict[str, PageFile]:
    """Return all files of a folder by name. Only these are served, so no path leads outside."""
    files = {}
    for path in sorted(folder.iterdir()):
        media_type = _MEDIA_TYPES.get(path.suffix)
        if media_type is not None:
            files[path.name] = _file(path.read_bytes(), media_type)
    return files


def _file(content: bytes, media_type: str) -> PageFile:
    return PageFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')


class Page:
    """The page.

    Args:
        more: a folder with scripts and styles that it has beside its own; None: it has none.
    """

    def __init__(self, more: Path | None = None) -> None:
        self._files = dict(page_files())
        if more is None:
            return
        added = page_files(more)
        tags = "".join(map(_tag, sorted(added)))
        page = self._files["index.html"]
        whole = page.content.replace(b"</head>", tags.encode() + b"</head>", 1)
        self._files |= {**added, "index.html": _file(whole, page.media_type)}

    async def index(self, request: Request) -> Response:
        """``GET /``: the page."""
        return _serve(self._files["index.html"], request)

    async def static(self, request: Request) -> Response:
        """``GET /static/{name}``: a file of the page."""
        return _serve(self._files.get(request.path_params["name"]), request)


def _tag(name: str) -> str:
    """Return what makes the page load a file."""
    if name.endswith(".css"):
        return f'<link rel="stylesheet" href="/static/{name}">\n'
    return f'<script type="module" src="/static/{name}"></script>\n'


def _serve(file: PageFile | None, request: Request) -> Response:
    if file is None:
        raise HTTPException(404, "there is no such file")
    # The browser revalidates its copy each time: an upgrade must not leave half of an old page.
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
