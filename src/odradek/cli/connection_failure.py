"""Prints the first failed connection to stderr while the command keeps retrying."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from odradek.cli.errors import print_error

_LOGGER: Final = "odradek.net"
_EVENT: Final = "net.connection_failed"


class ConnectionFailureHandler(logging.Handler):
    """Prints the first failed connection, and keeps its ``reason``.

    A host name that does not resolve is not printed: an error follows at once.
    """

    def __init__(self, action: str) -> None:
        super().__init__(logging.WARNING)
        self.reason: str | None = None
        self._action = action

    @contextmanager
    def installed(self) -> Iterator[None]:
        log = logging.getLogger(_LOGGER)
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        if self.reason is not None or getattr(record, "event", None) != _EVENT:
            return
        broker = fields["broker"]
        reason = str(fields["reason"]).removesuffix(f" (broker {broker})")
        self.reason = reason.removeprefix("Connection failed: ")
        if "does not resolve" not in self.reason:
            print_error(f"{broker}: {self.reason}; {self._action}")
