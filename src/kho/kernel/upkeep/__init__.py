"""Looking after a store as a whole: what is wrong with it, what it holds of whom, and what is done once a day."""
