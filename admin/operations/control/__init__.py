"""The work of operations: what changes a running cluster.

`cluster_control.py` stops, kills and starts brokers; `group_control.py`, `transaction_control.py`, `topic_control.py`
and `clock_control.py` act on what they are named after. `beginning.py`, `importing.py` and `data_folder.py` are what
a cluster begins with, and what is kept of it.
"""
