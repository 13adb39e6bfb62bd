"""The fuzzer: sends frames in small pipelines and judges the broker by what it does next.

After every pipeline the broker must answer a plain question on the same connection or have closed it; from
time to time a canary produces and fetches as any client would, and the broker's memory is looked at.
A pipeline that breaks one of these rules is written to a file that ``python -m tests.fuzz.run --replay``
sends again.
"""

from __future__ import annotations

import json
import random
import struct
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from kio.index import UnknownEntity, load_response_schema
from kio.serial import entity_reader
from tests.fuzz.mutations import asks_to_wait, mutate
from tests.fuzz.values import RequestMaker
from tests.support.broker import Broker
from tests.support.kio_requests import (
    create_topic,
    fetch_request,
    fetched_partition,
    kio_requests,
    metadata_request,
    produce_request,
    produced_partition,
)
from tests.support.raw_connection import ConnectionEnded, RawConnection, header_v1
from tests.support.record_batches import HandMadeBatch, record

from odradek.wire.apis import API_BY_KEY, Api

API_VERSIONS = 18
DESCRIBE_TRANSACTIONS = 65
"""The judge reads the start of a transaction as a date, and has none for the -1 of one that has not begun."""
SENTINEL = 2**31 - 7
PIPELINE_MAX = 8
CANARY_EVERY = 50
"""Pipelines between two looks at the canary and the memory."""
RSS_BYTES_MAX = 600 << 20
CANARY = "canary"
CANARY_SETTINGS = {"min.insync.replicas": "1", "compression.type": "producer", "cleanup.policy": "delete"}


class FuzzFailure(AssertionError):
    """The broker broke a rule; the message names the file that replays it."""


@dataclass(slots=True)
class FaultReport:
    """What a run did."""

    frames: int = 0
    answered: int = 0
    closed: int = 0
    rss_bytes_peak: int = 0
    apis: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Sent:
    """One frame of a pipeline; ``api`` and ``version`` are set if it is as the tables say."""

    data: bytes
    api: Api | None = None
    version: int = 0


class Fuzzer:
    """Fuzzes one broker with one seed."""

    def __init__(
        self, bootstrap: str, broker: Broker | None, seed: int, failures: Path, *, keep_going: bool = False
    ) -> None:
        self._bootstrap = bootstrap
        self._broker = broker
        self._process = None if broker is None else psutil.Process(broker.pid)
        self._chance = random.Random(seed)
        self._seed = seed
        self._failures = failures
        self._keep_going = keep_going
        self._connection: RawConnection | None = None
        self._topic_ids: list[bytes] = []
        self._recent: list[Sent] = []
        self._apis = self._advertised()
        self._canary = RawConnection(bootstrap)
        self._canary_offset = 0
        self.tally = FaultReport()

    def _advertised(self) -> list[tuple[Api, range]]:
        request = kio_requests("api_versions", 3).ApiVersionsRequest(
            client_software_name="fuzz", client_software_version="1"
        )
        with RawConnection(self._bootstrap) as connection:
            listed = connection.exchange(request).api_keys
        return [
            (API_BY_KEY[one.api_key], range(one.min_version, one.max_version + 1))
            for one in listed
            if one.api_key in API_BY_KEY
        ]

    def run(self, frames: int) -> FaultReport:
        """Send so many frames."""
        create_topic(self._canary, CANARY, dict(CANARY_SETTINGS))
        pipelines = 0
        try:
            while self.tally.frames < frames:
                if pipelines % CANARY_EVERY == 0:
                    self._learn_topic_ids()
                self.send(self._pipeline())
                pipelines += 1
                if pipelines % CANARY_EVERY == 0:
                    self._look_after()
            self._look_after()
        finally:
            self.close()
        return self.tally

    def close(self) -> None:
        """Close the connections."""
        self._canary.close()
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _learn_topic_ids(self) -> None:
        request = kio_requests("metadata", 12).MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        topics = self._canary.exchange(request).topics
        self._topic_ids = [one.topic_id.bytes for one in topics if one.topic_id and one.name != CANARY][:8]

    def _pipeline(self) -> list[Sent]:
        maker = RequestMaker(self._chance, self._topic_ids)
        pipeline: list[Sent] = []
        # What stands behind a damaged frame is seldom read: half of the pipelines stay whole.
        damage = self._chance.choice([0.0, 0.5])
        for number in range(self._chance.randrange(1, PIPELINE_MAX + 1)):
            api, versions = self._chance.choice(self._apis)
            version = self._chance.choice(versions)
            one = Sent(maker.frame(api, version, number), api, version)
            if self._chance.random() < damage:
                one = Sent(mutate(one.data, self._chance))
            if not asks_to_wait(one.data):
                pipeline.append(one)
                self.tally.apis[f"{api.name} {version}"] += 1
        return pipeline

    def send(self, pipeline: Sequence[Sent]) -> None:
        """Send a pipeline and check that the broker answers or closes."""
        self.tally.frames += len(pipeline)
        self._recent += pipeline
        if self._connection is None:
            self._connection = RawConnection(self._bootstrap)
        try:
            for one in pipeline:
                self._connection.send_frame(one.data)
            self._connection.send_frame(header_v1(API_VERSIONS, 0, SENTINEL))
            self._await_sentinel(self._connection, pipeline)
        except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
            self.tally.closed += 1
            self._drop()
        except TimeoutError:
            self._fail(pipeline, "neither an answer nor a close came in time")

    def _await_sentinel(self, connection: RawConnection, pipeline: Sequence[Sent]) -> None:
        while True:
            frame = connection.receive_frame()
            (correlation_id,) = struct.unpack_from(">i", frame)
            if correlation_id == SENTINEL:
                return
            self.tally.answered += 1
            self._check_shape(frame, correlation_id, pipeline)

    def _check_shape(self, frame: bytes, correlation_id: int, pipeline: Sequence[Sent]) -> None:
        """An answer to an undamaged request must be one that a reader written elsewhere can read."""
        if any(one.api is None for one in pipeline) or not 0 <= correlation_id < PIPELINE_MAX:
            return
        for one in pipeline:
            if struct.unpack_from(">i", one.data, 4)[0] == correlation_id and one.api is not None:
                if one.api.key == DESCRIBE_TRANSACTIONS:
                    return
                try:
                    kind = load_response_schema(one.api.key, one.version)
                except UnknownEntity:
                    return
                _, size = entity_reader(kind.__header_schema__)(frame, 0)
                _, body_size = entity_reader(kind)(frame, size)
                if size + body_size != len(frame):
                    self._fail(pipeline, f"answer to {one.api.name} {one.version} has bytes too many")

    def _look_after(self) -> None:
        """Judge the broker by all that was sent since the last look."""
        try:
            self._check_canary()
        except (ConnectionEnded, OSError, AssertionError) as error:
            self._fail(self._recent, f"the canary fell: {error!r}")
        if self._process is not None:
            rss = self._process.memory_info().rss
            self.tally.rss_bytes_peak = max(self.tally.rss_bytes_peak, rss)
            if rss > RSS_BYTES_MAX:
                self._fail(self._recent, f"the broker uses {rss >> 20} MB")
        if self._broker is not None and not self._keep_going and (traceback := self._broker.traceback()):
            self._fail(self._recent, f"the broker printed a traceback:\n{traceback}\n")
        self._recent.clear()

    def _check_canary(self) -> None:
        value = f"canary {self._seed} {self._canary_offset}".encode()
        batch = HandMadeBatch(records=[record(0, value)]).build()
        produced = produced_partition(self._canary.exchange(produce_request(CANARY, batch)))
        assert produced.error_code == 0, produced
        assert produced.base_offset == self._canary_offset, produced
        fetched = fetched_partition(self._canary.exchange(fetch_request(CANARY, self._canary_offset)))
        assert value in bytes(fetched.records or b""), fetched
        assert self._canary.exchange(metadata_request(CANARY)).topics[0].error_code == 0
        self._canary_offset += 1

    def _fail(self, pipeline: Sequence[Sent], why: str) -> None:
        self._failures.mkdir(parents=True, exist_ok=True)
        path = self._failures / f"fuzz-{self._seed}-{self.tally.frames}.json"
        path.write_text(json.dumps([one.data.hex() for one in pipeline]))
        raise FuzzFailure(
            f"{why}; seed {self._seed}, after {self.tally.frames} frames; "
            f"replay: python -m tests.fuzz.run --replay {path}"
        )


def report(tally: FaultReport, seed: int, began: float) -> str:
    """One line for people."""
    seconds = time.monotonic() - began
    return (
        f"fuzz: {tally.frames} frames, seed {seed}, {len(tally.apis)} API versions, "
        f"{tally.answered} answered, {tally.closed} closed, peak {tally.rss_bytes_peak >> 20} MB, "
        f"{seconds:.1f} s"
    )
