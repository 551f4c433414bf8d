"""Finished delayed operations: the last ones for the page, and all of them as records of a topic."""
