"""Limits: what one caller, tenant, board or document may take of a hub that others use, too.

A limit is a field of `settings.LimitSettings`, with what it counts and what it protects beside it. The refusal, its
text and the page docs/limits.md are made from there.
"""
