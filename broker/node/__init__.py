"""What composes a broker: listeners, purgatories, coordinators, quotas, access control, and what keeps them going."""
