"""What operations read of a cluster, as the JSON documents that they answer with."""
