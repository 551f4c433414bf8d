"""A broker's counters, and the names under which Prometheus scrapes them."""
