"""Profile of small requests: a broker in this process, fed with frames, without sockets.

``python -m bench.profile_requests`` prints CPU µs per produce and fetch request, and the functions that take
most of it under the profiler (which inflates small functions).
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import struct
import tempfile
import time
from collections.abc import Callable
from typing import Any

import uvloop

from odradek.broker.broker import Broker
from odradek.broker.environment import Environment
from odradek.broker.network.session import Session
from odradek.broker.topics.topic_planning import NewTopic
from odradek.config import sources
from odradek.records.batch import BatchBuilder
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.system.clock import SystemClock
from odradek.system.entropy import SystemEntropy
from odradek.system.files import RealFileSystem
from odradek.system.network import SocketNetwork
from odradek.system.workers import ThreadWorkers
from odradek.wire.headers import RequestHeader, encode_request_header
from odradek.wire.message_codecs import encoder
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, PRODUCE_VERSION = 0, 9
FETCH, FETCH_VERSION = 1, 11
REQUESTS = 3_000
ROUNDS = 12
PROFILED = 20_000
FUNCTIONS_SHOWN = 20


class NullConnection:
    """Connection that discards responses."""

    peer = peer_host = "nobody"
    queued_bytes = 0

    def send(self, parts: object) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self, *, flush: bool = False) -> None: ...


def frame(api_key: int, version: int, message: Any) -> bytes:
    head = encode_request_header(RequestHeader(api_key, version, 1, "profile"))
    body = encoder(message.__class__, version)(message)
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_frame() -> bytes:
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), b"k", b"x" * 100)
    data = [TopicProduceData("t", [PartitionProduceData(0, builder.build())])]
    return frame(PRODUCE, PRODUCE_VERSION, ProduceRequest(None, 1, 1000, data))


def fetch_frame(offset: int) -> bytes:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[part])])
    return frame(FETCH, FETCH_VERSION, request)


def measure(name: str, feed: Callable[[], None]) -> None:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(REQUESTS):
            feed()
        best = min(best, (time.process_time() - began) / REQUESTS)
    print(f"\n## {name}: {best * 1e6:.1f} µs of CPU per request, without sockets\n")
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(PROFILED):
        feed()
    profile.disable()
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(FUNCTIONS_SHOWN)


def feeding(session: Session, data: bytes) -> Callable[[], None]:
    def feed() -> None:
        session.receive_buffer()[: len(data)] = data
        session.bytes_received(len(data))

    return feed


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="odradek-profile-") as directory:
        arguments = [f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0"]
        clock = SystemClock()
        environment = Environment(
            clock,
            SystemEntropy(),
            RealFileSystem(),
            SocketNetwork(),
            lambda: "localhost",
            lambda path: EmbeddedEnsemble(path, clock),
            ThreadWorkers(),
        )
        broker = Broker(sources.load(None, {}, arguments).raw_values, environment)
        await broker.start()
        await broker._admin_manager.create_topics([NewTopic("t", 1, 1)], 5_000, validate_only=False)
        assert broker._socket_server is not None
        session = broker._sessions.make_session(NullConnection(), next(iter(broker._socket_server)))
        measure("produce of one batch of 100 B", feeding(session, produce_frame()))
        partition = broker._replica_manager.get_partition("t", 0)
        assert partition is not None
        tail = partition.log.log_end_offset - 1
        measure("fetch of one partition at its end", feeding(session, fetch_frame(tail)))
        await broker.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
