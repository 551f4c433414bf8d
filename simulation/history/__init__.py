"""The history of a simulation: events that clients did and saw, and conclusions from them."""
