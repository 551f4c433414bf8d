"""The command line: commands, flags, and printed output."""
