"""Secrets and personal data in text: found, masked, refused. A library for every slice that stores what others read."""
