"""The error of ``odradek cluster``."""

from __future__ import annotations

from odradek.cli.errors import CommandFailed


class ClusterError(CommandFailed):
    """Raised when a cluster cannot do what a command asks; the message says what to do."""
