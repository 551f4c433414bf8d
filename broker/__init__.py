"""Purgatorio: a Kafka-protocol mini-broker in asyncio Python."""
