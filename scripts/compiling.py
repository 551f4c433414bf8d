"""Compiles the hot modules with mypyc: the same source, as extension modules beside it. Optional; see docs/compiled.md.

python scripts/compiling.py [--clean]    in the working tree; ./scripts/compile prepares the environment for it
HATCH_BUILD_HOOKS_ENABLE=1 python -m build --wheel    a wheel with them
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[1]
# Where a wheel has them; in the repository they are folders of their own (docs/decisions/0001-one-namespace.md).
FOLDERS = ("purgatory", "protocol", "broker", "admin")
GROUP = "purgatorio"
"""The extension modules are entries to one library, `purgatorio__mypyc`, in which they call each other directly."""


MARK = "# compiled: docs/compiled.md"
"""A line of its own, between the docstring and the imports of a module that is compiled."""
MODULES = "modules"
"""The folder of the extension modules, below which they lie as in a wheel."""
KEPT = Path("build", "compiled")
"""Where the working tree's compilation keeps what it need not do again."""


def marked_sources(root: Path) -> list[str]:
    """The files to compile, as paths in a wheel: those that say so of themselves."""
    files = [file for folder in FOLDERS for file in (root / folder).rglob("*.py")]
    marked = [file.relative_to(root) for file in files if MARK in file.read_text("utf-8").splitlines()]
    return sorted(str(Path("purgatorio", file)) for file in marked)


def suspensions_while_handling(source: str) -> list[int]:
    """The lines on which a generator or coroutine is suspended inside `except` or `finally`.

    mypyc keeps the handled exception with the thread, not with the generator: if that is dropped there, whatever
    coroutine runs next may raise it.
    """
    lines: set[int] = set()
    for block in ast.walk(ast.parse(source)):
        inside: list[ast.AST] = []
        if isinstance(block, ast.ExceptHandler):
            inside += block.body
        elif isinstance(block, ast.Try):
            inside += block.finalbody
        kinds = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncWith, ast.AsyncFor)
        lines.update(node.lineno for each in inside for node in ast.walk(each) if isinstance(node, kinds))
    return sorted(lines)


def _check(root: Path, sources: list[str]) -> None:
    for file in sources:
        lines = suspensions_while_handling((root / file).read_text())
        if lines:
            raise SystemExit(f"{file}, line {lines[0]}: a compiled module must not suspend inside except or finally")


@contextlib.contextmanager
def compiled(root: Path, *, kept: Path | None = None) -> Iterator[list[Path]]:
    """Compile in a folder, and give the extension modules there: below `MODULES`, where a wheel has them.

    Args:
        kept: a folder in which an earlier compilation may be, of whose modules those are made again that have changed.
            Each module is then a library of its own. None: a temporary folder, and one library, for a wheel.
    """
    # Imported here, so that a wheel without extension modules is built without them.
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    sources = marked_sources(root)
    with contextlib.ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory())) if kept is None else kept
        made.mkdir(parents=True, exist_ok=True)
        stack.enter_context(contextlib.chdir(made))
        shutil.rmtree("purgatorio", ignore_errors=True)
        # mypyc fails where it reads some modules from its cache and makes others anew; without it takes ten seconds.
        shutil.rmtree(".mypy_cache", ignore_errors=True)
        skip = shutil.ignore_patterns(*FOLDERS, "pipeline", "__pycache__", "*.so", "*.pyd")
        shutil.copytree(root / "purgatorio", "purgatorio", ignore=skip)
        for folder in FOLDERS:
            shutil.copytree(root / folder, Path("purgatorio", folder), ignore=skip)
        _check(Path(), sources)
        # opt_level 3 is mypyc's choice for wheels; no debug information, which would make them ten times as large.
        extensions = mypycify(
            ["--ignore-missing-imports", *sources],
            opt_level="3",
            debug_level="0",
            group_name=GROUP if kept is None else None,
            separate=kept is not None,
        )
        distribution = Distribution({"name": GROUP, "ext_modules": extensions})
        distribution.script_name = "compiling.py"
        build = build_ext(distribution)
        build.build_lib = MODULES
        build.parallel = os.cpu_count()
        build.ensure_finalized()
        build.run()
        yield sorted(file for suffix in ("so", "pyd") for file in Path(MODULES).rglob(f"*.{suffix}"))


class MypycHook(BuildHookInterface[Any]):
    """Adds the extension modules to a wheel, which is then one for this platform."""

    PLUGIN_NAME = "mypyc"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the files to the builder; `version` is the kind of wheel."""
        if version == "editable":
            return
        self._kept = Path(tempfile.mkdtemp())
        with compiled(Path(self.root)) as modules:
            for module in modules:
                kept = self._kept / module
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(module, kept)
                build_data["force_include"][str(kept)] = str(module.relative_to(MODULES))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files when the wheel holds them."""
        if version != "editable":
            shutil.rmtree(self._kept)


def _present(root: Path) -> list[Path]:
    """The extension modules in the working tree."""
    beside_sources = [file for folder in FOLDERS for file in (root / folder).rglob("*")]
    return [file for file in [*root.glob(f"{GROUP}__mypyc.*"), *beside_sources] if file.suffix in (".so", ".pyd")]


def clean(root: Path = ROOT) -> int:
    """Remove the extension modules from the working tree; returns how many there were."""
    present = _present(root)
    for file in present:
        file.unlink()
    return len(present)


def main() -> int:
    """Compile in the working tree, or remove what was compiled there."""
    parser = argparse.ArgumentParser(description="Compile the hot modules with mypyc, in the working tree.")
    parser.add_argument("--clean", action="store_true", help="remove the extension modules again")
    options = parser.parse_args()
    if options.clean:
        print(f"removed {clean()} extension modules")
        shutil.rmtree(ROOT / KEPT, ignore_errors=True)
        return 0
    with compiled(ROOT, kept=ROOT / KEPT) as modules:
        clean()
        for module in modules:
            # purgatorio/broker and purgatorio/protocol lead to the folders.
            shutil.copy(module, ROOT / module.relative_to(MODULES))
        Path("stamp").touch()  # scripts/run looks at it
    print(f"compiled {len(marked_sources(ROOT))} modules; ./scripts/compile --clean removes them")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
