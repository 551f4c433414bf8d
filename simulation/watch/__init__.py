"""Plays a simulated history on the page: recorded while the seed runs, looked at when it has ended."""
