"""Metrics for Prometheus: each room's numbers under Kafka's metric names, made when it asks.

Begin with `prometheus.py`; `family.py` is a metric family under construction. A scrape of many partitions works in
steps, between which the brokers answer clients.
"""
