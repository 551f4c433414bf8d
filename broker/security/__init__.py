"""Authentication of clients (SASL, TLS), and what their principals may do (ACLs)."""
