"""A member with confluent-kafka: `BOOTSTRAP TOPIC GROUP SESSION_MS [SETTING=VALUE …]`; see `harness.py`."""

from __future__ import annotations

import os
import sys
import threading

from confluent_kafka import Consumer, TopicPartition


def say(*words: object) -> None:
    """Print a line, with the member's name, in one write."""
    sys.stdout.write(" ".join(map(str, (os.environ["MEMBER"], *words))) + "\n")
    sys.stdout.flush()


def indexes(partitions: list[TopicPartition]) -> str:
    return ",".join(str(partition.partition) for partition in partitions)


def main() -> None:
    bootstrap, topic, group_id, session_ms, *settings = sys.argv[1:]
    config: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **dict(setting.split("=") for setting in settings),
    }
    if config.get("group.protocol") != "consumer":
        config |= {"session.timeout.ms": int(session_ms), "heartbeat.interval.ms": int(session_ms) // 5}
    consumer = Consumer(config)
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: say("assigned", indexes(partitions)),
        on_revoke=lambda _, partitions: say("revoked", indexes(partitions)),
        on_lost=lambda _, partitions: say("revoked", indexes(partitions)),
    )
    stopping = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()
    while not stopping.is_set():
        message = consumer.poll(0.05)
        if message is None:
            continue
        if message.error() is not None:
            print(message.error(), file=sys.stderr)
            continue
        say("record", message.partition(), message.offset(), message.key().decode(), message.value().decode())
        try:
            consumer.commit(message, asynchronous=False)
        except Exception as error:  # the group rebalances, or has no coordinator: the next commit has this offset too
            print(error, file=sys.stderr)
        else:
            say("committed", message.partition(), message.offset() + 1)
    consumer.close()


main()
