"""What must hold in every simulation, checked on its history and in the brokers' memory."""
