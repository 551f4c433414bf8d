"""Handlers of Kafka's APIs, one module per API; `routes` lists them."""
