"""Measuring search on questions whose answers are known (`kho eval`). It is no part of a hub that serves."""

from kho.evaluation.bench import TENANT, Bench
from kho.evaluation.configurations import Configuration, merged
from kho.evaluation.runner import Evaluation

__all__ = ["TENANT", "Bench", "Configuration", "Evaluation", "merged"]
