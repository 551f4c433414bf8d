"""The simulated world: virtual time, a network in memory, brokers on it, and the faults that they meet."""
