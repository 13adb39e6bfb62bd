"""The end of an aiokafka consumer, also right after its broker was away."""

from __future__ import annotations

import asyncio
from typing import Any


async def stop_consumer(consumer: Any) -> None:
    """Stop it whole.

    ``stop`` leaves the group, then cancels fetches, then closes connections. A fetch that has failed rests
    for ``retry_backoff_ms`` where it does not expect to be cancelled, and ends ``stop`` itself by that.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        await consumer._client.close()
