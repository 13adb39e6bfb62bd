"""Many connections to a cluster: half produce a record per second with acks=all, half fetch at the log end.

Each client has one partition and a connection to its leader. Producers are spread over the second. Latency is
the time from sending a produce request to its response.
"""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
from contextlib import suppress

from bench.loads.broker.exchange import error_codes
from bench.loads.broker.frames import Exchange, batch, fetch, produce
from bench.loads.worker import Result, Spec, serve

ACKS_ALL = -1
FETCH_BYTES_MAX = 1 << 20
VALUE = b"v" * 100


class Client:
    def __init__(self, spec: Spec, number: int) -> None:
        topic, partition, self.port = spec["targets"][number % len(spec["targets"])]
        self.is_producer = number % 2 == 0
        self._phase = number / spec["clients"]
        self._ends_at = spec["seconds"]
        self._exchange: Exchange = (
            produce(topic, {partition: batch([VALUE])}, ACKS_ALL)
            if self.is_producer
            else fetch(topic, partition, 0, FETCH_BYTES_MAX)
        )
        self.latencies: list[float] = []
        self.first_at: float | None = None

    async def live(self, began: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        if self.is_producer:
            await asyncio.sleep(self._phase)
        while time.perf_counter() - began < self._ends_at:
            sent = time.perf_counter()
            writer.write(self._exchange.frame)
            prefix = await reader.readexactly(4)
            response = prefix + await reader.readexactly(struct.unpack(">i", prefix)[0])
            if any(error_codes(self._exchange, response)):
                raise ConnectionError(f"error codes {error_codes(self._exchange, response)}")
            self.latencies.append(time.perf_counter() - sent)
            self.first_at = self.first_at or time.perf_counter() - began
            await asyncio.sleep(max(0.0, 1.0 - self.latencies[-1]))
        writer.close()


async def _run(spec: Spec) -> Result:
    clients = [Client(spec, number) for number in range(spec["clients"])]
    began = time.perf_counter()
    with suppress(TimeoutError):
        await asyncio.wait_for(
            asyncio.gather(*(client.live(began) for client in clients)), spec["seconds"] + 30
        )
    latencies = sorted(second for client in clients if client.is_producer for second in client.latencies)
    return {
        "answered": sum(client.first_at is not None for client in clients),
        "first_seconds": max(client.first_at or float("inf") for client in clients),
        "requests": len(latencies),
        "produce_ms_p50": statistics.median(latencies) * 1000,
        "produce_ms_p99": latencies[int(len(latencies) * 0.99)] * 1000,
    }


def run(spec: Spec) -> Result:
    return asyncio.run(_run(spec))


if __name__ == "__main__":
    serve(run)
