"""The port for HTTP requests. Calls block, and belong on a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Http(Protocol):
    def get(self, url: str, timeout_s: float) -> tuple[int, bytes]:
        """Send a GET; return status and body. Raises OSError, or ValueError for a URL of another scheme."""
        ...

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> tuple[int, bytes]: ...
