"""Members of a group, each a real client in a process of its own, and what they say that they own and read.

A member is a program in `members/`, with the arguments BOOTSTRAP TOPIC GROUP SESSION_MS [SETTING=VALUE …]. It prints
`assigned P,P` and `revoked P,P`, or `owns P,P`, when the partitions that it owns change; `record PARTITION OFFSET KEY
VALUE` for each record, and then `committed PARTITION OFFSET`. It leaves the group when its standard input ends. Each
line begins with the member's name, from the environment variable MEMBER. All members write to one pipe, a line in one
write, so that lines are read in the order in which they were printed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE_SECONDS: Final = 90
"""kafkajs and franz-go look for a dead coordinator with waits that double."""
PARTITIONS: Final = 4
KEYS: Final = 8
PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Line:
    """What a member printed.

    Attributes:
        time_s: when it was read, in monotonic seconds.
        member: the member's name.
        verb: `owns`, `assigned`, `revoked`, `record` or `committed`.
        words: the rest.
    """

    time_s: float
    member: str
    verb: str
    words: list[str]

    @property
    def partitions(self) -> set[int]:
        """The partitions of `owns`, `assigned` and `revoked`."""
        return {int(index) for index in self.words[0].split(",")} if self.words else set()


class Members:
    """The members of one group, and the lines that they have printed so far.

    Args:
        bootstrap: the cluster's addresses.
        topic: the topic that they subscribe to, and that `feeding` writes to; it is created with four partitions.
        session_ms: the members' session timeout.
    """

    def __init__(self, bootstrap: str, topic: str, session_ms: int) -> None:
        self.session_ms = session_ms
        self.bootstrap = bootstrap
        self.topic = topic
        self.group_id = f"group-of-{topic}"
        self.lines: list[Line] = []
        self.fed: Counter[str] = Counter()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._changed = threading.Condition()
        read_end, self._write_end = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(os.fdopen(read_end),))
        self._reader.start()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        new = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=3)
        for created in admin.create_topics([new]).values():
            created.result()

    def _read(self, pipe: IO[str]) -> None:
        with pipe:
            for text in pipe:
                member, verb, *words = text.split()
                with self._changed:
                    self.lines.append(Line(time.monotonic(), member, verb, words))
                    self._changed.notify_all()

    def start(self, name: str, command: Sequence[str], *settings: str) -> None:
        """Start a member."""
        self._processes[name] = subprocess.Popen(
            [*command, self.bootstrap, self.topic, self.group_id, str(self.session_ms), *settings],
            stdin=subprocess.PIPE,
            stdout=self._write_end,
            env={**os.environ, "MEMBER": name},
        )

    def kill(self, name: str) -> None:
        """End a member at once, so that it cannot leave the group."""
        self._processes[name].kill()
        self._ended(name)

    def stop(self, name: str) -> None:
        """Have a member leave the group (or only close, if it is a static one)."""
        stdin = self._processes[name].stdin
        assert stdin is not None
        stdin.close()
        assert self._ended(name) == 0, f"{name} fails"

    def _ended(self, name: str) -> int:
        process = self._processes.pop(name)
        code = process.wait(PATIENCE_SECONDS)
        if process.stdin is not None:
            process.stdin.close()
        return code

    def close(self) -> None:
        """Kill the members that still run."""
        for name in list(self._processes):
            self.kill(name)
        os.close(self._write_end)
        self._reader.join()

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition on the lines holds."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_SECONDS), f"{what}: not so after {self.summary()}"

    def owned(self, name: str, lines: Sequence[Line] | None = None) -> set[int]:
        """Return the partitions that a member owns by what it has printed."""
        owned: set[int] = set()
        for line in self.lines if lines is None else lines:
            if line.member != name:
                continue
            if line.verb == "owns":
                owned = line.partitions
            elif line.verb == "assigned":
                owned |= line.partitions
            elif line.verb == "revoked":
                owned -= line.partitions
        return owned

    def wait_for_shares(self, *names: str) -> None:
        """Wait until these members own all partitions, each of them as many, and none is owned twice."""
        share = PARTITIONS // len(names)

        def shared() -> bool:
            owned = [self.owned(name) for name in names]
            return all(len(one) == share for one in owned) and len(set().union(*owned)) == PARTITIONS

        self.wait_until(shared, f"{', '.join(names)} own {share} partitions each")

    def wait_for_records(self, name: str) -> None:
        """Wait until a member has read and committed a record of each partition that it owns, from now on."""
        first = len(self.lines)
        self.wait_until(
            lambda: {int(line.words[0]) for line in self.of("committed", name, first)} >= self.owned(name),
            f"{name} reads and commits",
        )

    def of(self, verb: str, name: str, first: int = 0) -> list[Line]:
        """Return a member's lines of one kind, from a position on."""
        return [line for line in self.lines[first:] if line.verb == verb and line.member == name]

    def summary(self) -> str:
        """Return the changes of what the members own."""
        return "; ".join(
            f"{line.member} {line.verb} {','.join(line.words)}"
            for line in self.lines
            if line.verb in ("owns", "assigned", "revoked")
        )

    @contextlib.contextmanager
    def feeding(self) -> Iterator[None]:
        """Produce numbered records to all keys until the block ends; then wait until the members have read them all."""
        stopping = threading.Event()
        errors: list[object] = []

        def feed() -> None:
            producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 0})
            while not stopping.wait(PAUSE_SECONDS):
                for key in (f"key-{number}" for number in range(KEYS)):
                    producer.produce(
                        self.topic, str(self.fed[key]), key, on_delivery=lambda error, _: errors.append(error)
                    )
                    self.fed[key] += 1
                producer.poll(0)
            assert producer.flush(PATIENCE_SECONDS) == 0

        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            yield
        finally:
            stopping.set()
            feeding.join()
        assert not any(errors)
        self.wait_until(lambda: self._seen() == self.fed, "each record is read")

    def _seen(self) -> Counter[str]:
        """Return for each key how many different records were read."""
        seen = {(line.words[2], line.words[3]) for line in self.lines if line.verb == "record"}
        return Counter(key for key, _ in seen)

    def check_order(self) -> None:
        """Check that no record was read before its forerunner of the same key."""
        following: Counter[str] = Counter()
        for line in self.lines:
            if line.verb == "record":
                key, number = line.words[2], int(line.words[3])
                assert number <= following[key], f"{line.member} read {key} number {number} before {following[key]}"
                following[key] = max(following[key], number + 1)

    def check_resumed(self, name: str) -> None:
        """Check that a member's first records are those at the offsets that others committed last before it came."""
        first = next(index for index, line in enumerate(self.lines) if line.member == name)
        committed = {int(line.words[0]): int(line.words[1]) for line in self.lines[:first] if line.verb == "committed"}
        started: dict[int, int] = {}
        for line in self.of("record", name):
            started.setdefault(int(line.words[0]), int(line.words[1]))
        expected = {partition: committed.get(partition, 0) for partition in started}
        assert started == expected, f"{name} starts at {started}, committed was {committed}"
