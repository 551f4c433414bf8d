"""What an operator does to a running cluster: stop, kill, start and restart brokers, elect leaders."""
