"""What requests wait for, as data; the sentences that say it are made of the data, and never read back."""
