"""Resource limits of the process."""

import resource


def raise_open_file_limit() -> int:
    """Raise the soft limit on open files to the hard limit; return the effective limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return soft
    return hard
