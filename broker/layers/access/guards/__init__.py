"""What stands before the handler of each API if there is an authorizer; `table` has the list."""
