"""Reads of partitions, fetch sessions, and the fetches that wait for records."""
