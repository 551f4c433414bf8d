"""A dataflow of Bytewax: bills each order."""

import os

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow

brokers = [os.environ["BOOTSTRAP"]]
flow = Dataflow("billing")
orders = op.input("orders", flow, KafkaSource(brokers, ["orders"]))
bills = op.map("bill", orders, lambda order: KafkaSinkMessage(None, order.value + b" billed"))
op.output("bills", bills, KafkaSink(brokers, "bills"))
