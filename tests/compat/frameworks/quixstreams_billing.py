"""A pipeline of Quix Streams: bills each order, exactly once."""

import os
import tempfile

from quixstreams import Application

app = Application(
    broker_address=os.environ["BOOTSTRAP"],
    consumer_group="billing",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    state_dir=tempfile.mkdtemp(),
    commit_interval=0.2,
)
orders = app.dataframe(app.topic("orders", value_deserializer="string"))
orders.apply(lambda order: f"{order} billed").to_topic(app.topic("bills", value_serializer="string"))
app.run()
