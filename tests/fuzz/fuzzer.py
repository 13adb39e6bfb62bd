"""Fuzzer: sends frames in small pipelines and checks the broker after each.

After every pipeline the broker must respond to a plain request on the same connection, or have closed it. At
intervals a canary produces and fetches like any client, and the broker's memory is checked. A failing
pipeline is written to a file for ``python -m tests.fuzz.run --replay``.
"""

from __future__ import annotations

import json
import random
import struct
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psutil
from kio.index import UnknownAPIKey, UnknownEntity, load_response_schema
from kio.serial import entity_reader
from tests.fuzz.canary import TOPIC as CANARY
from tests.fuzz.canary import Canary, Connect
from tests.fuzz.control_requests import MOVED_TOPICS, OwnBroker, is_acceptable
from tests.fuzz.mutations import has_long_wait, mutate
from tests.fuzz.values import RequestGenerator
from tests.support.broker import Broker
from tests.support.kio_requests import kio_requests, metadata_request
from tests.support.raw_connection import ConnectionEnded, RawConnection, header_v1

from odradek.wire.apis import API_BY_KEY, Api

API_VERSIONS = 18
UNDATED_APIS = frozenset({38, 39, 40, 65})
"""kio fails on a date of -1: that of a delegation token not made or changed, or a transaction not begun."""
SENTINEL = 2**31 - 7
PIPELINE_MAX = 8
CANARY_EVERY = 50
"""Pipelines between two checks of the canary and the memory."""
RSS_BYTES_MAX = 600 << 20
NO_PORTS: Final[Mapping[str, int]] = MappingProxyType({})


class FuzzFailure(AssertionError):
    """Raised when a check fails; the message names the replay file."""


@dataclass(slots=True)
class FuzzCounts:
    """Counts of a run."""

    frames: int = 0
    responses: int = 0
    closed: int = 0
    rss_bytes_peak: int = 0
    apis: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Frame:
    """A frame of a pipeline; ``api`` and ``version`` are set if it is well-formed."""

    data: bytes
    api: Api | None = None
    version: int = 0


class Fuzzer:
    """Fuzzes one broker with one seed."""

    def __init__(
        self,
        bootstrap: str,
        broker: Broker | None,
        seed: int,
        failures: Path,
        *,
        keep_going: bool = False,
        connect: Connect | None = None,
        ports: Mapping[str, int] = NO_PORTS,
    ) -> None:
        """``connect`` makes connections to a listener that authenticates, of several with these ports."""
        self._connect = connect or partial(RawConnection, bootstrap)
        self._ports = ports
        self._broker = broker
        self._process = None if broker is None else psutil.Process(broker.pid)
        self._random = random.Random(seed)
        self._seed = seed
        self._failures = failures
        self._keep_going = keep_going
        self._connection: RawConnection | None = None
        self._topic_ids: list[bytes] = []
        self._recent: list[Frame] = []
        self._apis = self._advertised()
        self._own = self._own_broker()
        self._canary = Canary(self._connect, seed)
        self.counts = FuzzCounts()

    def _advertised(self) -> list[tuple[Api, range]]:
        request = kio_requests("api_versions", 3).ApiVersionsRequest(
            client_software_name="fuzz", client_software_version="1"
        )
        with self._connect() as connection:
            listed = connection.exchange(request).api_keys
        return [
            (API_BY_KEY[api.api_key], range(api.min_version, api.max_version + 1))
            for api in listed
            if api.api_key in API_BY_KEY
        ]

    def _own_broker(self) -> OwnBroker:
        with self._connect() as connection:
            (broker,) = connection.exchange(metadata_request(CANARY)).brokers
        return OwnBroker(broker.node_id, broker.host, broker.port, self._ports)

    def run(self, frames: int) -> FuzzCounts:
        """Send ``frames`` frames."""
        self._canary.create_topic()
        pipelines = 0
        try:
            while self.counts.frames < frames:
                if pipelines % CANARY_EVERY == 0:
                    self._fetch_topic_ids()
                self.send(self._pipeline())
                pipelines += 1
                if pipelines % CANARY_EVERY == 0:
                    self._check_broker()
            self._check_broker()
        finally:
            self.close()
        return self.counts

    def close(self) -> None:
        """Close the connections."""
        self._canary.close()
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _fetch_topic_ids(self) -> None:
        request = kio_requests("metadata", 12).MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        topics = self._canary.connection.exchange(request).topics
        self._topic_ids = [
            topic.topic_id.bytes
            for topic in topics
            if topic.topic_id and topic.name not in (CANARY, *MOVED_TOPICS)
        ][:8]

    def _pipeline(self) -> list[Frame]:
        maker = RequestGenerator(self._random, self._topic_ids, self._own)
        pipeline: list[Frame] = []
        # Frames after a mutated one are rarely read: half of the pipelines stay valid.
        damage = self._random.choice([0.0, 0.5])
        for number in range(self._random.randrange(1, PIPELINE_MAX + 1)):
            api, versions = self._random.choice(self._apis)
            version = self._random.choice(versions)
            frame = Frame(maker.frame(api, version, number), api, version)
            if self._random.random() < damage:
                frame = Frame(mutate(frame.data, self._random))
                if is_acceptable(frame.data, self._own):
                    continue
            if not has_long_wait(frame.data):
                pipeline.append(frame)
                self.counts.apis[f"{api.name} {version}"] += 1
        return pipeline

    def send(self, pipeline: Sequence[Frame]) -> None:
        """Send a pipeline and check that the broker responds or closes the connection."""
        self.counts.frames += len(pipeline)
        self._recent += pipeline
        if self._connection is None:
            self._connection = self._connect()
        try:
            for frame in pipeline:
                self._connection.send_frame(frame.data)
            self._connection.send_frame(header_v1(API_VERSIONS, 0, SENTINEL))
            self._await_sentinel(self._connection, pipeline)
        except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
            self.counts.closed += 1
            self._drop()
        except TimeoutError:
            self._fail(pipeline, "neither a response nor a close in time")

    def _await_sentinel(self, connection: RawConnection, pipeline: Sequence[Frame]) -> None:
        while True:
            frame = connection.receive_frame()
            (correlation_id,) = struct.unpack_from(">i", frame)
            if correlation_id == SENTINEL:
                return
            self.counts.responses += 1
            self._check_shape(frame, correlation_id, pipeline)

    def _check_shape(self, frame: bytes, correlation_id: int, pipeline: Sequence[Frame]) -> None:
        """Check that an independent decoder (kio) reads the response to a well-formed request."""
        if any(sent.api is None for sent in pipeline) or not 0 <= correlation_id < PIPELINE_MAX:
            return
        for sent in pipeline:
            if struct.unpack_from(">i", sent.data, 4)[0] == correlation_id and sent.api is not None:
                if sent.api.key in UNDATED_APIS:
                    return
                try:
                    kind = load_response_schema(sent.api.key, sent.version)
                except (UnknownAPIKey, UnknownEntity):
                    return
                _, size = entity_reader(kind.__header_schema__)(frame, 0)
                _, body_size = entity_reader(kind)(frame, size)
                if size + body_size != len(frame):
                    self._fail(pipeline, f"response to {sent.api.name} {sent.version} has trailing bytes")

    def _check_broker(self) -> None:
        """Check canary, memory and log after the frames since the last check."""
        try:
            self._canary.check()
        except (ConnectionEnded, OSError, AssertionError) as error:
            self._fail(self._recent, f"canary failed: {error!r}")
        if self._process is not None:
            rss = self._process.memory_info().rss
            self.counts.rss_bytes_peak = max(self.counts.rss_bytes_peak, rss)
            if rss > RSS_BYTES_MAX:
                self._fail(self._recent, f"broker uses {rss >> 20} MB")
        if self._broker is not None and not self._keep_going and (traceback := self._broker.traceback()):
            self._fail(self._recent, f"broker printed a traceback:\n{traceback}\n")
        self._recent.clear()

    def _fail(self, pipeline: Sequence[Frame], reason: str) -> None:
        self._failures.mkdir(parents=True, exist_ok=True)
        path = self._failures / f"fuzz-{self._seed}-{self.counts.frames}.json"
        path.write_text(json.dumps([frame.data.hex() for frame in pipeline]))
        raise FuzzFailure(
            f"{reason}; seed {self._seed}, after {self.counts.frames} frames; "
            f"replay: python -m tests.fuzz.run --replay {path}"
        )


def report(counts: FuzzCounts, seed: int, began: float) -> str:
    """Return a one-line summary."""
    seconds = time.monotonic() - began
    return (
        f"fuzz: {counts.frames} frames, seed {seed}, {len(counts.apis)} API versions, "
        f"{counts.responses} responses, {counts.closed} closed, peak {counts.rss_bytes_peak >> 20} MB, "
        f"{seconds:.1f} s"
    )
