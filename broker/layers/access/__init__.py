"""Who may do what: a guard before each API asks the authorizer."""
