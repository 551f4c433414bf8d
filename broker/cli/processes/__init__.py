"""``purgatorio cluster --processes``: each broker is a process, under a supervisor with the cluster's metadata."""
