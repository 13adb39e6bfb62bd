"""Offsets from brokers: log start and end, offsets by timestamp, and end offsets of leader epochs.

Resets and validations of positions run in the background, one request per leader; ``poll`` starts them and
is notified of their end. Errors that the application must handle are kept until the next ``poll`` raises
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from odradek.client.consumer.positions.offset_requests import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetResults,
    by_leader,
    leader_epoch_request,
    list_offsets_request,
    parse_leader_epochs,
    parse_list_offsets,
    truncation_error,
)
from odradek.client.consumer.positions.partition_state import FetchPosition, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.errors import backoff
from odradek.client.network.network_client import NetworkClient
from odradek.client.values import OffsetAndTimestamp
from odradek.config.client.connection import REQUEST_TIMEOUT_MS
from odradek.config.client.consumer import ISOLATION_LEVEL
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientClosed, ClientError, TimedOut, caused_by
from odradek.model.ids import NO_LEADER_EPOCH, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy

_TIMESTAMP_OF: Final = {
    OffsetReset.EARLIEST: EARLIEST_TIMESTAMP,
    OffsetReset.LATEST: LATEST_TIMESTAMP,
}
_EPOCHS_KEY: Final = 23
_EPOCHS_SINCE: Final = 3
"""First version of OffsetForLeaderEpoch that consumers may use."""


class OffsetFetcher:
    """Resets and validates positions, and looks up offsets; ``notify`` is called when positions change."""

    def __init__(
        self,
        network: NetworkClient,
        clock: Clock,
        entropy: Entropy,
        settings: Settings,
        subscription: SubscriptionState,
        notify: Callable[[], None],
    ) -> None:
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self._settings = settings
        self._subscription = subscription
        self._notify = notify
        self._read_committed = settings[ISOLATION_LEVEL] == "read_committed"
        self._request_timeout_ms = settings[REQUEST_TIMEOUT_MS]
        self._tasks: set[asyncio.Task[None]] = set()
        self._attempts = 0
        self._failure: ClientError | None = None
        self._last_error: ClientError | None = None
        """Last retriable error of a lookup, reported when the lookup times out."""

    # Positions, in the background.

    def raise_failure(self) -> None:
        """Raise the failure of a reset or validation, if any."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def on_leaders_changed(self) -> None:
        """Update positions with the leaders of new metadata."""
        metadata = self._network.metadata
        for partition, state in self._subscription.assigned.items():
            leader, epoch = metadata.leader(partition)
            state.update_leader(leader, epoch, can_validate=self._can_validate(leader))

    def _can_validate(self, node_id: int) -> bool:
        versions = self._network.versions(node_id)
        return not versions or (_EPOCHS_KEY in versions and versions[_EPOCHS_KEY].stop > _EPOCHS_SINCE)

    def reset_positions(self) -> None:
        """Send ListOffsets for partitions that await a reset."""
        due = self._subscription.needing_reset(self._clock.monotonic_ms())
        for node_id, partitions in self._by_leader(due).items():
            resets = {}
            for partition in partitions:
                reset = self._subscription.of(partition).reset
                if reset is not None:
                    resets[partition] = reset
            self._start(self._reset(node_id, resets), partitions)

    def validate_positions(self) -> None:
        """Send OffsetForLeaderEpoch for partitions that await validation.

        A leader in an older epoch than the record's has been replaced: it would not know that epoch, and the
        log would seem to be truncated.
        """
        due = self._subscription.needing_validation(self._clock.monotonic_ms())
        stale = [partition for partition in due if self._subscription.of(partition).has_stale_leader]
        if stale:
            self._back_off(stale)
        current = [partition for partition in due if partition not in stale]
        for node_id, partitions in self._by_leader(current).items():
            positions = {}
            for partition in partitions:
                position = self._subscription.of(partition).position
                if position is not None:
                    positions[partition] = position
            self._start(self._validate(node_id, positions), partitions)

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        grouped = by_leader(partitions, self._network.metadata)
        if grouped.unknown:
            self._network.request_update()
        return grouped.known

    def _start(self, request: Coroutine[Any, Any, None], partitions: list[TopicPartition]) -> None:
        # Not again while this is in flight; its completion sets another time.
        until_ms = self._clock.monotonic_ms() + 2 * self._request_timeout_ms
        self._subscription.set_next_retry(partitions, until_ms)
        task = asyncio.get_running_loop().create_task(self._run(request, partitions))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, request: Coroutine[Any, Any, None], partitions: list[TopicPartition]) -> None:
        try:
            await request
        except ClientClosed:
            return
        except ClientError as error:
            self._back_off(partitions)
            if not error.retriable:
                self._failure = self._failure or error
        self._notify()

    def _back_off(self, partitions: Iterable[TopicPartition]) -> None:
        """Request these again after the backoff, with newer metadata."""
        backoff_ms = backoff(self._attempts, self._settings, self._entropy)
        self._attempts += 1
        self._subscription.set_next_retry(partitions, self._clock.monotonic_ms() + backoff_ms)
        self._network.request_update()

    async def _reset(self, node_id: int, resets: Mapping[TopicPartition, OffsetReset]) -> None:
        timestamps = {partition: _TIMESTAMP_OF[reset] for partition, reset in resets.items()}
        results = await self._list_offsets(node_id, timestamps)
        for partition, offset in results.offsets.items():
            if offset is not None and partition in resets:
                # The offset comes from the leader itself and needs no validation.
                leader, epoch = self._network.metadata.leader(partition)
                position = FetchPosition(offset.offset, NO_LEADER_EPOCH, leader, epoch)
                self._subscription.complete_reset(partition, resets[partition], position)
        self._handle_errors(results)

    async def _validate(self, node_id: int, positions: Mapping[TopicPartition, FetchPosition]) -> None:
        await self._network.wait_until_ready(node_id, self._request_timeout_ms)
        if not self._can_validate(node_id):
            for partition, position in positions.items():
                state = self._subscription.assigned.get(partition)
                if state is not None and state.position == position:
                    state.complete_validation()
            return
        results = parse_leader_epochs(await self._network.send(node_id, leader_epoch_request(positions)))
        truncations = {}
        for partition, (end_epoch, end_offset) in results.offsets.items():
            position = positions[partition]
            truncation = self._subscription.complete_validation(partition, position, end_epoch, end_offset)
            if truncation is not None:
                truncations[partition] = truncation
        self._handle_errors(results)
        if truncations:
            raise truncation_error(truncations)

    def _handle_errors(self, results: OffsetResults) -> None:
        if results.to_retry:
            self._back_off(results.to_retry)
        else:
            self._attempts = 0
        if results.error is not None:
            raise results.error

    async def _list_offsets(self, node_id: int, timestamps: Mapping[TopicPartition, int]) -> OffsetResults:
        request = list_offsets_request(timestamps, self._network.metadata, self._read_committed)
        results = parse_list_offsets(await self._network.send(node_id, request))
        for partition, offset in results.offsets.items():
            if offset is not None:
                self._network.observe_leader_epoch(partition, offset.leader_epoch)
        return results

    # Lookups by the application.

    async def fetch_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offsets by timestamp, or by the special start and end timestamps, retrying on errors."""
        offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        missing = dict(timestamps)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                attempt = 0
                while True:
                    offsets.update(await self._list_all(missing))
                    missing = {
                        partition: timestamp
                        for partition, timestamp in missing.items()
                        if partition not in offsets
                    }
                    if not missing:
                        return offsets
                    self._network.request_update()
                    await self._clock.sleep_ms(backoff(attempt, self._settings, self._entropy))
                    attempt += 1
        except TimeoutError:
            names = ", ".join(str(partition) for partition in missing)
            message = f"offsets of {names} not received within {timeout_ms} ms"
            error, self._last_error = self._last_error, None
            late = TimedOut(message if error is None else f"{message}: {error}")
            raise caused_by(late, error) from error

    async def _list_all(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Send one ListOffsets per known leader; return the offsets received."""
        grouped = by_leader(timestamps, self._network.metadata)
        requests = [
            self._list_offsets(node_id, {partition: timestamps[partition] for partition in partitions})
            for node_id, partitions in grouped.known.items()
        ]
        offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for results in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(results, ClientError) and results.retriable:
                self._last_error = results
                continue
            if isinstance(results, BaseException):
                raise results
            if results.error is not None:
                raise results.error
            offsets.update(results.offsets)
        return offsets

    def update_end_offsets(self, ends: Mapping[TopicPartition, OffsetAndTimestamp | None]) -> None:
        """Store end offsets, from which the lag is computed."""
        for partition, end in ends.items():
            state = self._subscription.assigned.get(partition)
            if state is None or end is None:
                continue
            if self._read_committed:
                state.last_stable_offset = end.offset
            else:
                state.high_watermark = end.offset

    def fetch_end_offset_async(self, partition: TopicPartition) -> None:
        """Fetch an end offset in the background, unless a request for it is in flight."""
        state = self._subscription.of(partition)
        leader, _ = self._network.metadata.leader(partition)
        if state.end_offset_requested or leader not in self._network.metadata.nodes:
            return

        async def fetch() -> None:
            try:
                results = await self._list_offsets(leader, {partition: LATEST_TIMESTAMP})
                self.update_end_offsets(results.offsets)
            except ClientError:
                return  # nothing waits for it; the next call tries again
            finally:
                state.end_offset_requested = False

        state.end_offset_requested = True
        task = asyncio.get_running_loop().create_task(fetch())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
