"""What became of delayed operations: the last ones for the page, and all of them in a topic."""
