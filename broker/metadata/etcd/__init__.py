"""The metadata store on etcd: the brokers of several hosts share one cluster image there."""
