"""Documents cut into passages."""
