"""The kinds of purgatories: a row for each, whether brokers have made it already or not.

Standard library only: the command line and the test kit read it without the broker.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_NAME_CHARS: Final = 100
"""The length to which a wrong name is cut in a sentence."""


class Kind(NamedTuple):
    """A kind of purgatory.

    Attributes:
        purgatory: its name, which is Kafka's if Kafka has it.
        is_late: a broker makes it for the first operation, not when the broker is made.
    """

    purgatory: str
    is_late: bool = False


KINDS: Final[dict[str, Kind]] = {
    each.purgatory: each
    for each in (
        Kind("Produce"),
        Kind("Fetch"),
        Kind("ShareFetch"),
        Kind("DeleteRecords"),
        Kind("topic"),
        Kind("ElectLeader"),
        Kind("Rebalance"),
        Kind("Heartbeat"),
        Kind("Transaction"),
        Kind("TransactionTimeout"),
        Kind("Fault", is_late=True),
        Kind("Throttled", is_late=True),
        Kind("AcquisitionLock", is_late=True),
        Kind("ShareGroup", is_late=True),
        Kind("Persister", is_late=True),
        Kind("DeadLetter", is_late=True),
        Kind("Lesson", is_late=True),
    )
}


def why_unknown(name: str) -> str | None:
    """Return the sentence about a name that no purgatory has, with all that there are; None: there is one."""
    import difflib

    if name in KINDS:
        return None
    shown, known = ascii(name[:MAX_NAME_CHARS]), list(KINDS)
    spelled = {each.lower(): each for each in known}
    near = [spelled[each] for each in difflib.get_close_matches(name[:MAX_NAME_CHARS].lower(), spelled)]
    ordered = ", ".join(dict.fromkeys([*near, *known]))
    hint = f"; did you mean {near[0]}? There are {ordered}" if near else f", only {ordered}"
    return f"there is no purgatory {shown}{hint}"
