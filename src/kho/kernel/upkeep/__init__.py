"""Work on a store as a whole: what it holds of whom, and what is done once a day."""
