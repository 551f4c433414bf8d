"""What stands before handlers, each as a layer around a route: access, quotas, faults."""
