"""Shutdown of aiokafka consumers, also right after a broker restart."""

from __future__ import annotations

import asyncio
from typing import Any


async def stop_consumer(consumer: Any) -> None:
    """Stop a consumer completely.

    ``stop`` leaves the group, then cancels fetches, then closes connections. A failed fetch sleeps for
    ``retry_backoff_ms`` without expecting cancellation, which can abort ``stop``.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        await consumer._client.close()
