"""Questions to the knowledge base: where they look, the order of results, and what is said about them."""
