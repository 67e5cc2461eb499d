"""Finds, masks and refuses secrets and personal data in text. A library for every slice that stores what others
read."""
