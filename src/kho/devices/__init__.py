"""Boards that speak the xiaozhi protocol, and the tools that they bring (contract 001)."""
