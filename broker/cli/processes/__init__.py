"""``purgatorio cluster --processes``: each broker is a process, under a supervisor with the cluster's metadata."""

from typing import Final

START: Final = b"+"
"""The supervisor's message to the nursery, with the socket of a process to start."""
