"""How a board becomes known: what it says of itself, codes, approval, tokens."""
