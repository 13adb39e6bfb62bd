"""Offsets that only brokers know: starts and ends of logs, offsets by time, and where epochs end.

Resets and validations of positions run in the background, one request per leader; ``poll`` starts them and
hears of their end. What only the application can decide is kept until the next ``poll`` raises it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from odradek.client.consumer.positions.offset_requests import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Answers,
    by_leader,
    epochs_request,
    list_offsets_request,
    read_epochs,
    read_list_offsets,
    truncated,
)
from odradek.client.consumer.positions.partition_state import FetchPosition, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.errors import backoff
from odradek.client.network.network_client import NetworkClient
from odradek.client.values import OffsetAndTimestamp
from odradek.config.client.connection import REQUEST_TIMEOUT_MS
from odradek.config.client.consumer import ISOLATION_LEVEL
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientClosed, ClientError, TimedOut
from odradek.model.ids import NO_LEADER_EPOCH, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy

_TIMESTAMP_OF: Final = {
    OffsetReset.EARLIEST: EARLIEST_TIMESTAMP,
    OffsetReset.LATEST: LATEST_TIMESTAMP,
}
_EPOCHS_KEY: Final = 23
_EPOCHS_SINCE: Final = 3
"""The first version of OffsetForLeaderEpoch that consumers may use."""


class Offsets:
    """``news`` is called when positions have changed."""

    def __init__(
        self,
        network: NetworkClient,
        clock: Clock,
        entropy: Entropy,
        settings: Settings,
        subscription: SubscriptionState,
        news: Callable[[], None],
    ) -> None:
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self._settings = settings
        self._subscription = subscription
        self._news = news
        self._read_committed = settings[ISOLATION_LEVEL] == "read_committed"
        self._request_timeout_ms = settings[REQUEST_TIMEOUT_MS]
        self._tasks: set[asyncio.Task[None]] = set()
        self._attempts = 0
        self._failure: ClientError | None = None
        self._trouble: ClientError | None = None
        """What a look-up met last that may pass, to be told if it does not."""

    # Positions, in the background.

    def raise_failure(self) -> None:
        """Raise what a reset or a validation met that only the application can decide."""
        if self._failure is not None:
            failed, self._failure = self._failure, None
            raise failed

    def meet_leaders(self) -> None:
        """Compare positions with the leaders of a new metadata."""
        metadata = self._network.metadata
        for partition, each in self._subscription.assigned.items():
            leader, epoch = metadata.leader(partition)
            each.meet_leader(leader, epoch, can_validate=self._can_validate(leader))

    def _can_validate(self, node_id: int) -> bool:
        versions = self._network.versions(node_id)
        return not versions or (_EPOCHS_KEY in versions and versions[_EPOCHS_KEY].stop > _EPOCHS_SINCE)

    def reset_positions(self) -> None:
        """Ask for the starts and ends of logs that positions wait for."""
        waiting = self._subscription.needing_reset(self._clock.monotonic_ms())
        for node_id, partitions in self._grouped(waiting).items():
            resets = {}
            for partition in partitions:
                reset = self._subscription.of(partition).reset
                if reset is not None:
                    resets[partition] = reset
            self._begin(self._reset(node_id, resets), partitions)

    def validate_positions(self) -> None:
        """Ask leaders whether they have what positions were read from."""
        waiting = self._subscription.needing_validation(self._clock.monotonic_ms())
        for node_id, partitions in self._grouped(waiting).items():
            positions = {}
            for partition in partitions:
                position = self._subscription.of(partition).position
                if position is not None:
                    positions[partition] = position
            self._begin(self._validate(node_id, positions), partitions)

    def _grouped(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        grouped = by_leader(partitions, self._network.metadata)
        if grouped.unknown:
            self._network.request_update()
        return grouped.known

    def _begin(self, work: Coroutine[Any, Any, None], partitions: list[TopicPartition]) -> None:
        # Not again while this is under way; its end sets another time.
        until_ms = self._clock.monotonic_ms() + 2 * self._request_timeout_ms
        self._subscription.retry_at(partitions, until_ms)
        task = asyncio.get_running_loop().create_task(self._guarded(work, partitions))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None], partitions: list[TopicPartition]) -> None:
        try:
            await work
        except ClientClosed:
            return
        except ClientError as failed:
            self._again(partitions)
            if not failed.retriable:
                self._failure = self._failure or failed
        self._news()

    def _again(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask about these again after a rest, with newer metadata."""
        rest_ms = backoff(self._attempts, self._settings, self._entropy)
        self._attempts += 1
        self._subscription.retry_at(partitions, self._clock.monotonic_ms() + rest_ms)
        self._network.request_update()

    async def _reset(self, node_id: int, resets: Mapping[TopicPartition, OffsetReset]) -> None:
        timestamps = {partition: _TIMESTAMP_OF[reset] for partition, reset in resets.items()}
        answers = await self._list(node_id, timestamps)
        for partition, told in answers.found.items():
            if told is not None and partition in resets:
                # The offset comes from the leader itself: there is no epoch to be validated.
                leader, epoch = self._network.metadata.leader(partition)
                position = FetchPosition(told.offset, NO_LEADER_EPOCH, leader, epoch)
                self._subscription.complete_reset(partition, resets[partition], position)
        self._conclude(answers)

    async def _validate(self, node_id: int, positions: Mapping[TopicPartition, FetchPosition]) -> None:
        await self._network.wait_until_ready(node_id, self._request_timeout_ms)
        if not self._can_validate(node_id):
            for partition, position in positions.items():
                state = self._subscription.assigned.get(partition)
                if state is not None and state.position == position:
                    state.complete_validation()
            return
        answers = read_epochs(await self._network.send(node_id, epochs_request(positions)))
        truncations = {}
        for partition, (end_epoch, end_offset) in answers.found.items():
            asked = positions[partition]
            told = self._subscription.complete_validation(partition, asked, end_epoch, end_offset)
            if told is not None:
                truncations[partition] = told
        self._conclude(answers)
        if truncations:
            raise truncated(truncations)

    def _conclude(self, answers: Answers) -> None:
        if answers.again:
            self._again(answers.again)
        else:
            self._attempts = 0
        if answers.refused is not None:
            raise answers.refused

    async def _list(self, node_id: int, timestamps: Mapping[TopicPartition, int]) -> Answers:
        request = list_offsets_request(timestamps, self._network.metadata, self._read_committed)
        answers = read_list_offsets(await self._network.send(node_id, request))
        for partition, told in answers.found.items():
            if told is not None:
                self._network.observe_leader_epoch(partition, told.leader_epoch)
        return answers

    # Questions of the application.

    async def look_up(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Offsets by time, or by the timestamps that mean start and end; asked for until all are known."""
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        missing = dict(timestamps)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                attempt = 0
                while True:
                    found.update(await self._ask_all(missing))
                    missing = {each: when for each, when in missing.items() if each not in found}
                    if not missing:
                        return found
                    self._network.request_update()
                    await self._clock.sleep_ms(backoff(attempt, self._settings, self._entropy))
                    attempt += 1
        except TimeoutError:
            what = f"no offsets of {', '.join(str(each) for each in missing)} within {timeout_ms} ms"
            trouble, self._trouble = self._trouble, None
            raise TimedOut(what if trouble is None else f"{what}: {trouble}") from trouble

    async def _ask_all(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """What leaders that can be reached tell at once."""
        grouped = by_leader(timestamps, self._network.metadata)
        asked = [
            self._list(node_id, {each: timestamps[each] for each in partitions})
            for node_id, partitions in grouped.known.items()
        ]
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for answers in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answers, ClientError) and answers.retriable:
                self._trouble = answers
                continue
            if isinstance(answers, BaseException):
                raise answers
            if answers.refused is not None:
                raise answers.refused
            found.update(answers.found)
        return found

    def note_ends(self, ends: Mapping[TopicPartition, OffsetAndTimestamp | None]) -> None:
        """Remember ends of logs, to count how far behind a reader is."""
        for partition, end in ends.items():
            state = self._subscription.assigned.get(partition)
            if state is None or end is None:
                continue
            if self._read_committed:
                state.last_stable_offset = end.offset
            else:
                state.high_watermark = end.offset

    def ask_end_soon(self, partition: TopicPartition) -> None:
        """Learn the end of a log in the background, unless that is under way."""
        state = self._subscription.of(partition)
        leader, _ = self._network.metadata.leader(partition)
        if state.end_offset_asked or leader not in self._network.metadata.nodes:
            return

        async def ask() -> None:
            try:
                self.note_ends((await self._list(leader, {partition: LATEST_TIMESTAMP})).found)
            except ClientError:
                return  # nobody waits for it, and whoever asks again begins anew
            finally:
                state.end_offset_asked = False

        state.end_offset_asked = True
        task = asyncio.get_running_loop().create_task(ask())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
