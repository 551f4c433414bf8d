"""The simulated world: virtual time, a network in memory, brokers on it, and the faults that they meet.

`loop.py` is an event loop whose time passes when nothing is left to do; brokers and clients run on it unmodified.
"""
