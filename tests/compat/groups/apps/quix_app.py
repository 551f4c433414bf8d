"""Quix Streams' hello-world: `BOOTSTRAP TOPIC COUNT`; doubles numbers, and prints them and how many it has had."""

from __future__ import annotations

import sys
import tempfile

from quixstreams import Application, State

BOOTSTRAP, TOPIC, COUNT = sys.argv[1:]
app = Application(
    broker_address=BOOTSTRAP,
    consumer_group=f"group-of-{TOPIC}",
    auto_offset_reset="earliest",
    loglevel="WARNING",
    state_dir=tempfile.mkdtemp(),
)
numbers = app.topic(TOPIC, value_deserializer="json")
doubles = app.topic(f"{TOPIC}-doubles", value_serializer="json")


def count(value: dict[str, int], state: State) -> dict[str, int]:
    """Count in the state, which a changelog topic keeps."""
    state.set("count", state.get("count", 0) + 1)
    return {"double": value["number"] * 2, "count": state.get("count")}


with app.get_producer() as producer:
    for number in range(int(COUNT)):
        message = numbers.serialize(key="key", value={"number": number})
        producer.produce(topic=numbers.name, key=message.key, value=message.value)
stream = app.dataframe(numbers).apply(count, stateful=True).to_topic(doubles)
stream.update(lambda value: print(value["double"], value["count"], flush=True))
app.run(timeout=30, count=int(COUNT))
