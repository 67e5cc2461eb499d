"""Loaded by every Python that finds it on its path, which the tests see to: see `loopback_only`."""

import os

if "LOOPBACK_ONLY_REPORT" in os.environ:
    import loopback_only

    loopback_only.install()
