"""What the cosines of an embedding model mean, measured once per model."""
