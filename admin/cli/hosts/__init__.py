"""A broker of a cluster whose brokers run on several hosts: ``purgatorio serve --store etcd://…``."""
