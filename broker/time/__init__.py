"""Time, passed in: the clock that runs, the one that tests move, the event loop, and when garbage is collected."""
