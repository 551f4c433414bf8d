"""What the cluster consists of: an immutable image, the decisions that change it, and the store that holds it."""
