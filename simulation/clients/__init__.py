"""The simulated clients: producers, consumers, members of groups, transactional writers."""
