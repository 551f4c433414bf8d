"""Measures everything in one run, and prints one table; on request also scale, processes, memory, and Spark, share
groups and Apache Kafka (these need Java).

.venv/bin/python scripts/bench [--quick] [--only NAME]
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from purgatorio.admin.cli.build import build
from rows import Row, table

BENCHMARKS = (
    "purgatory",
    "wheel",
    "codec",
    "latency",
    "lag",
    "throughput",
    "groups",
    "transactions",
    "security",
    "connections",
    "startup",
    "kit",
)
ON_REQUEST = {
    "kafka": "side_by_side",
    "memory": "memory",
    "processes": "as_processes",
    "scale": "scale",
    "share": "shares",
    "spark": "spark",
    "tier": "tier",
}


def main() -> int:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure everything, as ratios where possible.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that the benchmarks run")
    parser.add_argument(
        "--only", choices=(*BENCHMARKS, *ON_REQUEST), action="append", help="run only this benchmark; may be repeated"
    )
    options = parser.parse_args()
    rows: list[Row] = []
    loads = []
    for name in options.only or BENCHMARKS:
        print(f"{name} …", file=sys.stderr, flush=True)
        loads.append(os.getloadavg()[0])
        rows += importlib.import_module(ON_REQUEST.get(name, name)).rows(options.quick)
    print(table(rows))
    print(f"\nLoad average when each part began: {', '.join(f'{load:.1f}' for load in loads)}; {build()}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
