"""What a follower does: it fetches from leaders over TCP, appends, and truncates where its log diverged.

Begin with `follower.py`, the loop: one for each leader. It uses the Fetch API that consumers use. What it fetches at
is how its leader knows what it has, which moves the high watermark.
"""
