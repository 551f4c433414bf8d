"""The cluster's metadata: the immutable image, the decisions that change it, and the metadata store."""
