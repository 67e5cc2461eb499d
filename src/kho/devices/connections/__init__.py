"""Connected boards: their connections, and forwarding of calls between processes."""
