"""MCP on both of its wires and in both of its eras."""
