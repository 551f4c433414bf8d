"""Dead-letter topics of share groups (KIP-1191): where leaders copy records that are given up."""
