"""The Kafka wire protocol: bytes to messages and back; no sockets, no clock."""
