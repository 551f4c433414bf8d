"""Partition logs in memory: segments of batches, leader epochs, producer state, retention and compaction."""
