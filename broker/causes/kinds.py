"""The kinds of purgatories: a row for each, from which all follows that names them.

A new kind is a row here and its operation. `Purgatories` makes the purgatory; the page, ``purgatorio top``, the
commands, the report of a failed test and the pipeline's report have its words, place and colours from here.
``scripts/kinds.py --write`` takes them to files that are not Python, and to those that may not import the broker.

Standard library only: the command line and the test kit read it without a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

MAX_NAME_CHARS: Final = 100
"""The length to which a wrong name is cut in a sentence."""


class Holds(Enum):
    """The kinds of things that wait in a purgatory."""

    REQUESTS = "requests of clients and brokers, which are answered when they have waited"
    SESSIONS = "members that may be silent, and transactions that may be open, until a deadline: nothing is late"
    LOCKS = "records that members have, until a deadline"
    RETRIES = "calls of this broker that have failed, and are made again"


class Time(Enum):
    """The clock by which deadlines go."""

    BROKER = "the broker's"
    PROCESS = "the broker's without the standstills of its process: what it judges clients by, whom it could not hear"
    MEMBERS = "the same without the times that a test skipped"


class Colours(NamedTuple):
    """A colour on the page's dark and light ground, as CSS has it."""

    dark: str
    light: str


class Kind(NamedTuple):
    """A kind of purgatory, or one of two kinds of operations that share a purgatory.

    Attributes:
        purgatory: its name, which is Kafka's if Kafka has it.
        noun: one of its operations, in words.
        counted: one and many of them in a sentence; None: the noun and "operation".
        holds: the kind of things that wait there.
        time: the clock of its deadlines.
        is_late: a broker makes it for the first operation, not when the broker is made.
        purges_by: the setting of its purge interval; None: it has `Purgatory`'s own.
        title: the noun on the page; None: the same with a capital letter.
        colours: on the page; None: those of all others.
        plotted: the colour in the pipeline's report; None: the next that is free.
        rank: its place in the page's list of what waits; those of one rank are listed by their time.
        is_offered: the page offers to hide it before the first one has waited.
        is_poll: it ends by its deadline all the time, which is no failure: as nothing new has come, or a mute is over.
        of_followers: the kind of those that followers have asked for; None: no follower does.
    """

    purgatory: str
    noun: str
    counted: tuple[str, str] | None = None
    holds: Holds = Holds.REQUESTS
    time: Time = Time.BROKER
    is_late: bool = False
    purges_by: str | None = None
    title: str | None = None
    colours: Colours | None = None
    plotted: str | None = None
    rank: int = 50
    is_offered: bool = False
    is_poll: bool = False
    of_followers: Kind | None = None

    @property
    def one_and_many(self) -> tuple[str, str]:
        """How its operations are counted."""
        return self.counted or (f"{self.noun} operation", f"{self.noun} operations")

    @property
    def is_idle(self) -> bool:
        """Whether idle members, transactions or followers have one each: it is listed only if it is asked for."""
        return self.holds is Holds.SESSIONS or self is FOLLOWER_FETCH

    @property
    def has_requests(self) -> bool:
        """Whether something waits that could be late; the other kinds are deadlines alone."""
        return self.holds in (Holds.REQUESTS, Holds.RETRIES)


PRODUCE: Final = Kind(
    "Produce",
    "produce",
    counted=("produce request", "produce requests"),
    purges_by="producer_purgatory_purge_interval_requests",
    title="Produce, acks=all",
    colours=Colours("#ff9d45", "#b25300"),
    plotted="#3f7fd9",
    rank=0,
    is_offered=True,
)
FOLLOWER_FETCH: Final = Kind(
    "Fetch",
    "follower fetch",
    counted=("follower fetch", "follower fetches"),
    colours=Colours("#9d97bd", "#6f6894"),
    plotted="#2a9d8f",
    rank=91,
    is_offered=True,
    is_poll=True,
)
FETCH: Final = Kind(
    "Fetch",
    "consumer fetch",
    counted=("consumer fetch", "consumer fetches"),
    purges_by="fetch_purgatory_purge_interval_requests",
    colours=Colours("#5ccbdb", "#08748a"),
    plotted="#e0862b",
    rank=2,
    is_offered=True,
    is_poll=True,
    of_followers=FOLLOWER_FETCH,
)
REMOTE_FETCH: Final = Kind(
    "RemoteFetch",
    "remote fetch",
    counted=("fetch from the tier", "fetches from the tier"),
    is_late=True,
)
REMOTE_LIST_OFFSETS: Final = Kind(
    "RemoteListOffsets",
    "remote list offsets",
    counted=("look-up of offsets in the tier", "look-ups of offsets in the tier"),
    is_late=True,
)
SHARE_FETCH: Final = Kind(
    "ShareFetch",
    "share fetch",
    counted=("share fetch", "share fetches"),
    purges_by="share_fetch_purgatory_purge_interval_requests",
    is_poll=True,
)
DELETE_RECORDS: Final = Kind(
    "DeleteRecords",
    "delete records",
    counted=("DeleteRecords request", "DeleteRecords requests"),
    purges_by="delete_records_purgatory_purge_interval_requests",
    plotted="#8d63d2",
)
TOPIC: Final = Kind("topic", "topic", counted=("request for topics", "requests for topics"), plotted="#b0724f")
ELECT_LEADER: Final = Kind(
    "ElectLeader", "elect leader", counted=("ElectLeaders request", "ElectLeaders requests"), plotted="#d1497a"
)
REBALANCE: Final = Kind(
    "Rebalance",
    "rebalance",
    counted=("group request", "group requests"),
    time=Time.MEMBERS,
    colours=Colours("#c3a3ff", "#7446c4"),
    rank=1,
    is_offered=True,
)
HEARTBEAT: Final = Kind(
    "Heartbeat",
    "heartbeat",
    holds=Holds.SESSIONS,
    time=Time.MEMBERS,
    title="Member session",
    colours=Colours("#6fa8dc", "#2f6fad"),
    rank=90,
    is_offered=True,
)
TRANSACTION: Final = Kind(
    "Transaction",
    "transaction",
    counted=("transactional request", "transactional requests"),
    colours=Colours("#e48fd0", "#a0337f"),
)
TRANSACTION_TIMEOUT: Final = Kind(
    "TransactionTimeout",
    "transaction timeout",
    holds=Holds.SESSIONS,
    time=Time.PROCESS,
    title="Open transaction",
    colours=TRANSACTION.colours,
)
FAULT: Final = Kind("Fault", "fault", counted=("request", "requests"), is_late=True)
THROTTLED: Final = Kind("Throttled", "throttled", counted=("connection", "connections"), is_late=True, is_poll=True)
# While its process stands still a member cannot acknowledge, and must lose no record for that. A test that moves the
# clock ends locks, which is all that it can want to wait for: so the time is that of open transactions, not of members.
ACQUISITION_LOCK: Final = Kind(
    "AcquisitionLock", "acquisition lock", holds=Holds.LOCKS, time=Time.PROCESS, is_late=True
)
SHARE_GROUP: Final = Kind("ShareGroup", "share group", is_late=True)
PERSISTER: Final = Kind(
    "Persister",
    "persister",
    counted=("call to a share coordinator", "calls to share coordinators"),
    holds=Holds.RETRIES,
    is_late=True,
)
DEAD_LETTER: Final = Kind("DeadLetter", "dead letter", holds=Holds.RETRIES, is_late=True)
MARKER: Final = Kind("Marker", "marker", counted=("end marker", "end markers"), holds=Holds.RETRIES, is_late=True)
VERIFICATION: Final = Kind(
    "Verification",
    "verification",
    counted=("verification of a transaction", "verifications of transactions"),
    holds=Holds.RETRIES,
    is_late=True,
)
END_OFFSET: Final = Kind(
    "EndOffset",
    "end offset",
    counted=("question for the end of a log", "questions for the ends of logs"),
    holds=Holds.RETRIES,
    is_late=True,
)
LESSON: Final = Kind("Lesson", "lesson", counted=("timer", "timers"), is_late=True)

KINDS: Final[dict[str, Kind]] = {
    each.purgatory: each
    for each in (
        PRODUCE, FETCH, REMOTE_FETCH, REMOTE_LIST_OFFSETS, SHARE_FETCH, DELETE_RECORDS, TOPIC, ELECT_LEADER,
        REBALANCE, HEARTBEAT, TRANSACTION, TRANSACTION_TIMEOUT, FAULT, THROTTLED, ACQUISITION_LOCK, SHARE_GROUP,
        PERSISTER, DEAD_LETTER, MARKER, VERIFICATION, END_OFFSET, LESSON,
    )
}  # fmt: skip
"""By purgatory, in the order in which brokers make them and the page shows them."""


def shown() -> Iterator[Kind]:
    """Yield all kinds, also those that share a purgatory."""
    for each in KINDS.values():
        yield each
        if each.of_followers is not None:
            yield each.of_followers


def named(purgatory: str) -> Kind:
    """Return the kind with this purgatory's name, as a broker reports it; an unknown one holds requests."""
    return KINDS.get(purgatory) or Kind(purgatory, purgatory)


def of_noun(noun: str) -> Kind:
    """Return the kind with this noun, as a broker reports it; see `named`."""
    return next((each for each in shown() if each.noun == noun), Kind(noun, noun))


def why_unknown(name: str) -> str | None:
    """Return the sentence about a name that no purgatory has, with all that there are; None: there is one."""
    import difflib

    if name in KINDS:
        return None
    cut, known = name[:MAX_NAME_CHARS], list(KINDS)
    spelled = {each.lower(): each for each in known}
    near = [spelled[each] for each in difflib.get_close_matches(cut.lower(), spelled)]
    ordered = ", ".join(dict.fromkeys([*near, *known]))
    hint = f"; did you mean {near[0]}? There are {ordered}" if near else f", only {ordered}"
    return f"there is no purgatory {cut!a}{hint}"
