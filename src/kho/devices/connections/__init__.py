"""Connected boards: each one's connection, and how processes reach the boards of each other."""
