"""Files of this machine on their way to documents: which may be read, what changed, jobs that survive a restart."""
