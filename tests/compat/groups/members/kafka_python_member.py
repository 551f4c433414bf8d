"""A member with kafka-python: `BOOTSTRAP TOPIC GROUP SESSION_MS [SETTING=VALUE …]`; see `harness.py`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata


def say(*words: object) -> None:
    """Print a line, with the member's name, in one write."""
    sys.stdout.write(" ".join(map(str, (os.environ["MEMBER"], *words))) + "\n")
    sys.stdout.flush()


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say("revoked", ",".join(str(p.partition) for p in revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("assigned", ",".join(str(p.partition) for p in assigned))


def main() -> None:
    bootstrap, topic, group_id, session_ms, *settings = sys.argv[1:]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=group_id,
        session_timeout_ms=int(session_ms),
        heartbeat_interval_ms=int(session_ms) // 5,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **dict(setting.split("=") for setting in settings),
    )
    consumer.subscribe([topic], listener=Listener())
    stopping = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()
    while not stopping.is_set():
        # kafka-python 3.0.12 forgets its assignment if a poll ends while it joins: let none end there.
        for where, messages in consumer.poll(timeout_ms=1_000).items():
            for message in messages:
                say("record", message.partition, message.offset, message.key.decode(), message.value.decode())
            try:
                consumer.commit({where: OffsetAndMetadata(messages[-1].offset + 1, "", -1)})
            except KafkaError as error:  # the group rebalances: the next commit has this offset too
                print(repr(error), file=sys.stderr)
            else:
                say("committed", where.partition, messages[-1].offset + 1)
    consumer.close()


main()
