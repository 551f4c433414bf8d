"""Quotas: how much clients and followers may send, and what happens to those that send more."""
