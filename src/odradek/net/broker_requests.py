"""Ports for requests from this broker to others.

Replication, coordinators and the broker send through ``BrokerRequests``. Errors are those of ``net``:
``ConnectionFailed``, ``TimedOut`` and ``UnsupportedVersion``.
"""

from __future__ import annotations

from typing import Any, Protocol


class BrokerChannel(Protocol):
    """A connection of its own to one broker, opened on first use and reopened after a failure."""

    async def send(self, request: Any, timeout_ms: int, *, version_max: int | None = None) -> Any:
        """Send a request and return the response, in the latest version both know up to ``version_max``."""
        ...

    async def close(self) -> None:
        """Close the connection; requests in flight fail with ``ConnectionFailed``."""
        ...


class BrokerRequests(Protocol):
    """Requests to brokers by id, over the inter-broker listener. None of them is retried."""

    async def send(
        self, broker_id: int, request: Any, timeout_ms: int, *, version_max: int | None = None
    ) -> Any:
        """Send to a live broker. The local broker is called without a connection."""
        ...

    async def send_to_controller(
        self, request: Any, timeout_ms: int, *, version_max: int | None = None
    ) -> Any:
        """Send to the current controller; raises ``ConnectionFailed`` while none is known."""
        ...

    def open_channel(self, broker_id: int, name: str) -> BrokerChannel:
        """Return a channel for a sender that waits long for responses, such as a replica fetcher."""
        ...
