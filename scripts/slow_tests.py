"""The list of tests that take too much CPU for a quick run, tests/slow_tests.txt, made of the times of a run.

    .venv/bin/python -m pytest -n 2 --cpu-times TIMES -m "not (simulation or spark or clients or process or heavy)"
    .venv/bin/python scripts/slow_tests.py TIMES            print the list
    .venv/bin/python scripts/slow_tests.py TIMES --write    write it

Use a quiet machine, and run the tests twice: the first run compiles them. Files that are listed by hand stay.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.parts import LIMIT_SECONDS, SLOW_LIST

LAST_REMARK = "# scripts/slow_tests.py makes the rest.\n"


def slow(times: Iterable[str]) -> list[str]:
    """Return the slow tests: a test without its cases if most of these are slow.

    Args:
        times: lines of seconds and node id.
    """
    cases: dict[str, dict[str, float]] = defaultdict(dict)
    for line in times:
        seconds, _, nodeid = line.rstrip("\n").partition(" ")
        cases[nodeid.partition("[")[0]][nodeid] = float(seconds)
    found: list[str] = []
    for test, measured in cases.items():
        listed = [nodeid for nodeid, seconds in measured.items() if seconds >= LIMIT_SECONDS]
        found += [test] if 2 * len(listed) > len(measured) else listed
    return sorted(found)


def main(argv: Sequence[str]) -> int:
    """Print the list, or write it."""
    if len(argv) not in (1, 2) or argv[1:] not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    head, remark, _ = SLOW_LIST.read_text(encoding="utf-8").partition(LAST_REMARK)
    text = head + remark + "".join(f"{each}\n" for each in slow(Path(argv[0]).read_text(encoding="utf-8").splitlines()))
    if argv[1:]:
        SLOW_LIST.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
