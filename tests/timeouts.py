"""How long tests wait: for what happens, not for a clock."""

PATIENCE = 180.0
"""Seconds until a test gives up something that never comes. No measure of speed: a busy machine may take its time. Less
than the 600 at which pytest ends a test, so that the failure names what was waited for; and little enough that a hub
which is broken for many tests does not cost a run of the suite hours."""
