"""The command that installs an extra of this installation, for the messages that ask for one."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


def install(extra: str) -> str:
    """Return the command that adds an extra, in the way in which this distribution was installed.

    An editable installation stays editable. What was installed from a folder or a wheel is installed from there again,
    without a package registry. An executable of its own cannot be added to.
    """
    if getattr(sys, "frozen", False):
        return f"this executable is made without [{extra}]: install from a clone or a wheel"
    url, editable = _origin()
    if not url:
        return _pip(f"purgatorio[{extra}]")
    if urlsplit(url).scheme != "file":
        return _pip(f"purgatorio[{extra}] @ {url}")
    path = _shown(Path(url2pathname(urlsplit(url).path)))
    return _pip(f"{path}[{extra}]", *["-e"] * editable)


def _origin() -> tuple[str, bool]:
    """Return the URL that this was installed from, or "", and whether it is editable (PEP 610)."""
    try:
        text = metadata.distribution("purgatorio").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return "", False
    origin = json.loads(text or "{}")
    return origin.get("url", ""), bool(origin.get("dir_info", {}).get("editable"))


def _pip(requirement: str, *options: str) -> str:
    python = _shown(Path(sys.executable)) if sys.executable else "python"
    return f"{shlex.quote(python)} -m pip install {' '.join([*options, shlex.quote(requirement)])}"


def _shown(path: Path) -> str:
    """Return a path as someone types it here: relative where it is below, `.` or ./ in front, as pip wants it."""
    try:
        below = path.relative_to(os.getcwd())
    except (ValueError, OSError):
        return str(path)
    return str(below) if below == Path() else f"./{below}"
