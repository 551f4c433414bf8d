"""How long requests wait: a streaming job from ``__delayed_operations`` to tables of parquet and a page of plots."""
