"""What a follower does: it fetches from leaders, and truncates where its log diverged."""
