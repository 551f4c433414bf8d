"""Schemas of what the broker writes and others read: data only, so that neither has to import the other."""
