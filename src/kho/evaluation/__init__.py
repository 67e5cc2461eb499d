"""Measures search quality on questions with known answers (`kho eval`). Not part of a hub that serves."""

from kho.evaluation.bench import TENANT, Bench
from kho.evaluation.configurations import Configuration
from kho.evaluation.runner import Evaluation

__all__ = ["TENANT", "Bench", "Configuration", "Evaluation"]
