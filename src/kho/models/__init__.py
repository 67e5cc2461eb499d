"""Third-party models: embedders and rerankers, one file per provider, chosen in `factory`."""
