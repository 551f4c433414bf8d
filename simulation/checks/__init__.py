"""Checks of every simulation, on its history and in the brokers' memory.

A check that fails ends the seed with the events that show it. `simulation/mutants.py`,
`share_mutants.py` and `tier_mutants.py` switch a rule of the broker off, to show that a check notices.
"""
