"""What boards ask a hub over HTTP: their settings, their WebSocket, what their photos show."""
