"""What a broker counts, and the names under which Prometheus scrapes it."""
