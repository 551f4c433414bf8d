"""What the pages about the house take from the code: the list of rooms, and the drawing of what a broker keeps.

    .venv/bin/python scripts/house.py            print both
    .venv/bin/python scripts/house.py --write    write docs/rooms.md, and the drawing into docs/how-it-works.md

A test compares the pages with it; another one fails if a class or an attribute of the drawing is gone.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS_PAGE: Final = ROOT / "docs" / "rooms.md"
HOW_PAGE: Final = ROOT / "docs" / "how-it-works.md"
FOLDERS: Final = ("purgatory", "protocol", "broker", "admin", "testing", "simulation", "pipeline", "purgatorio/client")
BEGIN: Final = "<!-- made by scripts/house.py: begin -->\n"
END: Final = "<!-- made by scripts/house.py: end -->\n"

HEAD: Final = """\
# Rooms

The head of each room's own `__init__.py`; `scripts/house.py --write` makes this page of them. `lint-imports` checks
which room may import which (`pyproject.toml`), and `tests/test_circles.py` that no two files need each other.
[How it works](how-it-works.md) is the way through them.
"""


class Holds(NamedTuple):
    """An arrow of the drawing: an object of a class has others in an attribute.

    Attributes:
        owner: file and class.
        attribute: the attribute, as the class names it.
        held: file and class of what is in it.
        many: whether there are many of them.
    """

    owner: str
    attribute: str
    held: str
    many: bool = False


CLUSTER: Final = "broker/cluster/cluster.py:BrokerCluster"
BROKER: Final = "broker/node/broker.py:Broker"
REPLICAS: Final = "broker/replica/replica_manager.py:ReplicaManager"
PARTITION: Final = "broker/replica/partition.py:Partition"
LOG: Final = "broker/log/log.py:Log"
PURGATORY: Final = "purgatory/view.py:PurgatoryView"
GROUPS: Final = "broker/group/groups.py:Groups"
LED_SHARES: Final = "broker/share/led_shares.py:LedShares"
STATE: Final = (
    Holds(CLUSTER, "store", "broker/metadata/image.py:ClusterImage"),
    Holds(CLUSTER, "brokers", BROKER, many=True),
    Holds(BROKER, "listeners", "broker/server/connection.py:Connection", many=True),
    Holds(BROKER, "purgatories", PURGATORY, many=True),
    Holds(BROKER, "replicas", REPLICAS),
    Holds(BROKER, "fetch_sessions", "broker/replica/fetching/fetch_session.py:FetchSession", many=True),
    Holds(BROKER, "groups", GROUPS),
    Holds(BROKER, "transactions", "broker/txn/transaction.py:Transaction", many=True),
    Holds(BROKER, "led_shares", LED_SHARES),
    Holds(REPLICAS, "partitions", PARTITION, many=True),
    Holds(PARTITION, "followers", "broker/replica/follower_state.py:FollowerState", many=True),
    Holds(PARTITION, "log", LOG),
    Holds(LOG, "_segments", "broker/log/segment.py:Segment", many=True),
    Holds(LOG, "epochs", "broker/log/epochs.py:LeaderEpochs"),
    Holds(LOG, "producers", "broker/log/producer_state.py:ProducerState", many=True),
    Holds(GROUPS, "coordinator", "broker/group/group.py:Group", many=True),
    Holds(LED_SHARES, "partitions", "broker/share/share_partition.py:SharePartition", many=True),
    Holds(PURGATORY, "_parked", "purgatory/delayed_operation.py:DelayedOperation", many=True),
    Holds(PURGATORY, "_watchers", "purgatory/watchers.py:Watchers"),
    Holds(PURGATORY, "_timer", "purgatory/timing_wheel.py:TimingWheel"),
)


@cache
def _attributes(place: str) -> frozenset[str]:
    """The names of a class's attributes, properties and methods; LookupError if there is no such class."""
    file, name = place.split(":")
    module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = next((each for each in module.body if isinstance(each, ast.ClassDef) and each.name == name), None)
    if found is None:
        raise LookupError(f"{file} has no class {name}")
    names = {each.attr for each in ast.walk(found) if isinstance(each, ast.Attribute) and _is_self(each.value)}
    return frozenset(names | {each.name for each in found.body if isinstance(each, ast.FunctionDef)})


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"


def drawing(state: Sequence[Holds] = STATE) -> str:
    """What a broker keeps, as a diagram in Mermaid.

    Raises:
        LookupError: a class or an attribute is gone.
    """
    lines = ["```mermaid", "flowchart LR"]
    for each in state:
        if each.attribute not in _attributes(each.owner):
            raise LookupError(f"{each.owner} has no attribute {each.attribute}")
        _attributes(each.held)
        owner, held = each.owner.split(":")[1], each.held.split(":")[1]
        lines.append(f"    {owner} -->|{each.attribute.lstrip('_')}{' *' if each.many else ''}| {held}")
    return "\n".join([*lines, "```", ""])


def rooms() -> str:
    """The page of rooms, in Markdown."""
    parts = [HEAD]
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("__init__.py")):
            head = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
            assert head, f"{file} has no docstring"
            name = file.parent.relative_to(ROOT).as_posix()
            depth = "##" if name in FOLDERS else "###"
            # Programs of a docstring, with the sentence before them, are for its reader, and not for this page.
            text = re.sub(
                r"(?:.+\n)*.*::\n\n(?:    .*\n|\n)+", "", f"{head.partition(chr(10) + chr(10) + 'Attributes:')[0]}\n"
            )
            text = text.replace("``", "`")
            parts.append(f"{depth} {name}/\n\n{text.strip()}\n")
    return "\n".join(parts)


def how_it_works(page: str) -> str:
    """The page with the drawing as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{drawing()}\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """Print or write; returns the exit code."""
    if arguments == ["--write"]:
        ROOMS_PAGE.write_text(rooms(), encoding="utf-8")
        HOW_PAGE.write_text(how_it_works(HOW_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    elif not arguments:
        print(rooms() + drawing(), end="")
    else:
        print("usage: house.py [--write]", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
