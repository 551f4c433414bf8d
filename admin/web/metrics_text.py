"""Metrics of several processes as one text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_END: Final = "# EOF"
"""The last line of OpenMetrics."""
_SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(\{)?")
_OF_A_BROKER: Final = re.compile(r'[{,]broker="')


def joined_metrics(texts: Mapping[str, str]) -> str:
    """Return the metrics of all processes, each family once.

    Args:
        texts: the metrics of each process, by its name, all in one of Prometheus's formats. A sample that has no label
            ``broker`` is of the process, and gets its name as the label ``process``.
    """
    families: dict[str, tuple[list[str], list[str]]] = {}  # the comments of a family, and its samples
    is_open = False
    for process, text in texts.items():
        head, samples = families.setdefault("", ([], []))
        for line in text.splitlines():
            if line == _END:
                is_open = True
            elif line.startswith("#"):
                family = line.split(" ", 3)[2]
                head, samples = families.setdefault(family, ([], []))
                if line.split(" ", 2)[1] not in [told.split(" ", 2)[1] for told in head]:
                    head.append(line)
            elif line:
                samples.append(_labelled(line, process))
    lines = [line for head, samples in families.values() if samples for line in (*head, *samples)]
    return "\n".join([*lines, *([_END] if is_open else []), ""])


def _labelled(sample: str, process: str) -> str:
    if _OF_A_BROKER.search(sample):
        return sample
    found = _SAMPLE.match(sample)
    assert found is not None, sample
    name, brace = found.groups()
    rest = sample[found.end() :]
    return f'{name}{{process="{process}",{rest}' if brace else f'{name}{{process="{process}"}}{rest}'
