"""Limit of open files, and so of connections, of this process."""

import resource


def make_room(wanted: int) -> None:
    """Raise the soft limit to `wanted`, as far as the hard limit allows. The default is about a thousand files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
