"""The analysis of waits: a streaming job from ``__delayed_operations`` to parquet tables and a page of plots."""
