"""Small things that know nothing of Kho: each could be a package of its own."""
