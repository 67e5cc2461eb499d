"""MCP over both transports (HTTP and stdio) and in both protocol eras (handshake and 2026-07-28)."""
