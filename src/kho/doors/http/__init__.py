"""HTTP: /jsonrpc, /actions, discovery, the pages of slices, and the guard before all of them."""
