"""``purgatorio cluster --processes``: each broker is a process, under a supervisor with the cluster's metadata."""

from typing import Final

START: Final = b"+"
"""The supervisor's message to the nursery, with the sockets of a process to start."""
MAX_SOCKETS: Final = 253
"""The most sockets that Linux takes along with one message (SCM_MAX_FD)."""
