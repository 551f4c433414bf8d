"""Simulation of whole clusters in virtual time: unmodified brokers on a simulated network, with faults, by seed."""
