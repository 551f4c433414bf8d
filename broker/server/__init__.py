"""The TCP side: connections in (`listener`), connections out to other brokers (`peer`), and their limits (`limits`)."""
