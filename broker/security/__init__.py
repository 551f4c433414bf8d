"""Who clients are (SASL, TLS), and what they may do (ACLs)."""
