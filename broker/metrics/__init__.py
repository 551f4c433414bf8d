"""A broker's counters, and how late its event loop is: plain integers that the hot path increments.

Prometheus' names and its text are made in `purgatorio.admin.metrics`, when it scrapes.
"""
