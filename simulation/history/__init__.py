"""What clients did and saw in a simulation, as events, and what follows from them."""
