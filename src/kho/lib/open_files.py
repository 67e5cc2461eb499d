"""How many files, and so connections, this process may have open."""

import resource


def make_room(wanted: int) -> None:
    """Systems let a program have about a thousand files open, and more if it asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
