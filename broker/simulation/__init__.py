"""Whole clusters in virtual time: the unmodified brokers on a simulated network, with faults, replayed by seed."""
