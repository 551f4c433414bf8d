"""Writes to partitions that this broker leads, and the requests that wait until followers have them."""
