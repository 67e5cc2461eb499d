"""HTTP endpoints for boards: settings (OTA), WebSocket, vision."""
