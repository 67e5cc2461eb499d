"""Calibration of an embedding model's cosines, measured once per model."""
