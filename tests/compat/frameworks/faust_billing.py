"""An agent of Faust: bills each order."""

import os

import faust

app = faust.App("billing", broker=f"kafka://{os.environ['BOOTSTRAP'].replace(',', ';kafka://')}", web_enabled=False)
orders = app.topic("orders", value_type=bytes, value_serializer="raw")
bills = app.topic("bills", value_type=bytes, value_serializer="raw")


@app.agent(orders)
async def bill(stream):
    """Bill what comes."""
    async for order in stream:
        await bills.send(value=order + b" billed")


app.main()
