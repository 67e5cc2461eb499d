"""What is made of the wheel: a plugin of Claude Code, a bundle for Claude Desktop, an entry for the MCP registry."""
