"""A cluster that a program owns: it prints its addresses as JSON, ends with its owner, may begin with records."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import purgatorio
from purgatorio.admin.operations.control.beginning import Beginning
from purgatorio.admin.operations.control.data_folder import DataFolder
from purgatorio.admin.operations.control.importing import joined, read_folder, seed_topic
from purgatorio.admin.web.server import HttpService

if TYPE_CHECKING:
    from purgatorio.admin.cli.registry_beside import WantedRegistry
    from purgatorio.registry import SchemaRegistry

_READ_BYTES: Final = 4096


class Ways(NamedTuple):
    """How the process of a cluster deals with the one that started it.

    Attributes:
        print_json: it prints one line of JSON, not a greeting.
        with_parent: it ends when its standard input ends.
        registry: the schema registry that runs beside it, if any.
    """

    print_json: bool = False
    with_parent: bool = False
    registry: WantedRegistry | None = None


PLAIN_WAYS: Final = Ways()


def ways_of(args: argparse.Namespace) -> Ways:
    """Return what the options say."""
    registry = None
    if args.registry is not None:
        from purgatorio.admin.cli.registry_beside import DEFAULT_PORT, WantedRegistry

        usual_port = 0 if args.print_json else DEFAULT_PORT
        registry = WantedRegistry(args.registry, usual_port if args.registry_port is None else args.registry_port)
    return Ways(args.print_json, args.with_parent, registry)


@contextlib.contextmanager
def beginning_of(args: argparse.Namespace) -> Iterator[Beginning]:
    """Read what the options have the cluster begin with. The folder for data is this process's meanwhile.

    Raises:
        NotImported: a topic or a line of a file cannot be used.
        DataUnusable: the folder for data cannot be used.
    """
    seeds = [seed_topic(each) for each in args.seed_topic]
    imported = read_folder(Path(args.import_folder)) if args.import_folder else []
    if not args.data:
        yield Beginning(joined(seeds, imported))
        return
    data = DataFolder(Path(args.data))
    try:
        snapshot = data.read()
        yield Beginning(joined(seeds, imported if snapshot is None else []), snapshot, data)
    finally:
        data.close()


def ready_line(bootstrap: str, admin: HttpService, registry: SchemaRegistry | None = None) -> str:
    """Return where a cluster is, as one line of JSON, and where its schema registry is if there is one.

    A configured token is left out: it is a secret of those who set it.
    """
    told: dict[str, Any] = {
        "bootstrap": bootstrap,
        "admin_url": admin.url.replace("//localhost:", "//127.0.0.1:"),
        "token": admin.made_token,
        "pid": os.getpid(),
        "version": purgatorio.__version__,
    }
    if registry is not None:
        told["schema_registry_url"] = registry.url
    return json.dumps(told)


def stop_with_parent(stop: asyncio.Event) -> None:
    """Set `stop` when the standard input ends; what it has is not read as anything."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        with contextlib.suppress(OSError, ValueError):  # it is closed already
            while os.read(sys.stdin.fileno() if sys.stdin is not None else -1, _READ_BYTES):
                pass
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait, name="standard input", daemon=True).start()
