"""Checks of every simulation, on its history and in the brokers' memory.

A check that fails ends the seed with the events that show it. `simulation/mutants.py`
and the modules that it names switch a rule of the broker off, to show that a check notices.
"""
