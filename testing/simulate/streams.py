"""Randomness: one seed, and a stream of its own for each purpose, so that a change of one leaves the others alone."""

from __future__ import annotations

import random


def stream(seed: int, purpose: str) -> random.Random:
    """Return the generator of one purpose of a seed: the schedule, the network, the faults, a node's own draws."""
    return random.Random(seed_of(seed, purpose))


def seed_of(seed: int, purpose: str) -> str:
    """Return what the generator of one purpose is seeded with."""
    return f"{purpose} of seed {seed}"
