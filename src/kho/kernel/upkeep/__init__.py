"""Looking after a store: what is wrong with it, and the rules by which that is found."""
