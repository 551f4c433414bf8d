"""What an operator does to a running cluster."""
