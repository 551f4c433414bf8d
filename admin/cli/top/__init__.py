"""``purgatorio top``: what waits in a running cluster, in a terminal, by keys as in k9s. Needs the extra ``top``."""
