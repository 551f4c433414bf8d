"""Tiered storage (KIP-405): closed segments of logs in an object store, where consumers may read them.

The store is the truth: `names` says where objects lie, `segment_file` what they hold, `remote_segments` which of them
are a log's, `claim` whose the store is. `copying` writes them, `reads` reads them, `cleaning` deletes them, `restoring`
finds what a new process begins with. All of it knows a `Store` of four calls and no more.
"""
