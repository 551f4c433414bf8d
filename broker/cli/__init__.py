"""The command line: what users type, and what is printed."""
