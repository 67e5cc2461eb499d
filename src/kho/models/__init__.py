"""Models that others made: embedders and rerankers, one file per provider, chosen in `factory`."""
