"""Finds what Python prints of values in texts that people read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

PRINTED: Final = re.compile(
    r"""
    <[A-Za-z_]                                  # <QuotaKind.PRODUCE: 'Produce'>, <object at 0x…>
    | \b(None|True|False|Ellipsis|nan)\b
    | \bb(?='[^']*') | \bb"                     # b'bytes'
    | [(\[{]\s*["']                             # ('a', {'a', ['a'
    | ['"]\s*[,:]\s*['"]                        # 'a', 'b'
    | \b_?[A-Z][A-Za-z]*\(                      # TopicPartition(
    | \b[A-Z][a-z]+[A-Z][A-Za-z]*\.[A-Za-z_]    # ErrorCode.NONE
    | \bpurgatorio\.(admin|broker|protocol|purgatory|testing)\.
    | \b(frozenset|dict_keys|mappingproxy|namedtuple|dataclass)\b
    """,
    re.VERBOSE,
)
QUOTED: Final = re.compile(r"(?<!\w)'([^' ]+)'")


def texts_in(document: Any) -> Iterator[str]:
    """Yield all texts in a document."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for value in document.values():
            yield from texts_in(value)
    elif isinstance(document, (list, tuple)):
        for value in document:
            yield from texts_in(value)


def printed_by_python(texts: Iterable[str], given: Iterable[object] = ()) -> list[str]:
    """Return the texts that have something which Python printed.

    Args:
        given: the words that a user gave: a sentence may quote these, and no others.
    """
    words = sorted(map(str, given), key=len, reverse=True)

    def has_printed(text: str) -> bool:
        for word in words:
            text = text.replace(repr(word), "").replace(f"'{word}'", "")
            text = text.replace(word, "") if PRINTED.search(word) else text
        return PRINTED.search(text) is not None or any(
            not any(quoted in word for word in words) for quoted in QUOTED.findall(text)
        )

    return [text for text in texts if has_printed(text)]
