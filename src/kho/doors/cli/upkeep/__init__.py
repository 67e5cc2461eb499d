"""Commands for whoever runs the hub."""
