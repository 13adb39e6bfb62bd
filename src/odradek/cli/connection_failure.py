"""A line on stderr when the first connection fails, while the command goes on trying."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from odradek.cli.errors import print_error

_LOGGER: Final = "odradek.net"
_EVENT: Final = "net.connection_failed"


class ConnectionFailureHandler(logging.Handler):
    """Tells of the first connection that fails, and keeps the ``reason``.

    A host that does not exist is left to the error that follows at once.
    """

    def __init__(self, so: str) -> None:
        super().__init__(logging.WARNING)
        self.reason: str | None = None
        self._so = so

    @contextmanager
    def told(self) -> Iterator[None]:
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
            print_error(f"{broker}: {self.reason}; {self._so}")
