"""Connections from clients (`listener`), connections to other brokers (`peer`), and their limits (`limits`)."""
