"""Connecting MCP clients to this hub: their settings files, edited in place and put back as they were."""
