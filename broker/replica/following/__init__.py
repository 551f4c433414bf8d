"""Followers: they fetch from leaders over TCP, append, and truncate where their logs diverged.

Begin with `follower.py`, the loop: one for each leader. It uses the Fetch API that consumers use. Its fetch offsets
show the leader which records it has, which moves the high watermark.
"""
