"""Keeps a client's metadata up to date, and lets callers wait for updates.

One task requests metadata when ``MetadataSchedule`` says so. Waiting calls are woken by each update, or fail
when none will come: the client was closed, or brokers reject its requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Final

from odradek.client.errors import broker_error
from odradek.client.network.metadata import (
    EMPTY_METADATA,
    RELIABLE_EPOCHS_SINCE,
    ClusterMetadata,
    TopicMetadata,
    apply_metadata_response,
)
from odradek.client.network.metadata_schedule import MetadataSchedule
from odradek.model.client_errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionFailed,
    TimedOut,
    UnresolvedBootstrap,
    UnsupportedVersion,
)
from odradek.model.errors import ErrorCode
from odradek.net.api_versions import RequestBuilder
from odradek.ports.clock import Clock
from odradek.telemetry import events
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = events.logger("client")

Listener = Callable[[ClusterMetadata], None]

_NO_TOPICS_SINCE: Final = 1
_AUTO_CREATE_SINCE: Final = 4


class MetadataUpdater:
    """Owner of the metadata.

    ``send`` sends a request to any broker, ``on_update`` is called before listeners, and ``candidates`` names
    the brokers that may get the request.
    """

    def __init__(
        self,
        schedule: MetadataSchedule,
        clock: Clock,
        send: Callable[[RequestBuilder], Awaitable[MetadataResponse]],
        on_update: Callable[[ClusterMetadata], None],
        *,
        allow_auto_create: bool,
        candidates: Callable[[], str],
    ) -> None:
        self.metadata = EMPTY_METADATA
        self.schedule = schedule
        self.is_requesting = False
        self.last_error: ClientError | None = None
        """The failure of the last request; None if it succeeded."""

        self.updated_ms = clock.monotonic_ms()
        self._clock = clock
        self._send = send
        self._on_update = on_update
        self._allow_auto_create = allow_auto_create
        self._candidates = candidates
        self._listeners: list[Listener] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._wakeup: asyncio.Future[None] | None = None
        self._version = 0

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def request_update(self) -> int:
        """Request metadata soon; return the version that the response will exceed."""
        self.schedule.request_update()
        self.wakeup()
        # A response in flight may have been written before the reason for this update arose.
        return self.metadata.version + self.is_requesting

    # Waiting.

    async def await_update(self, last_version: int, timeout_ms: int) -> ClusterMetadata:
        """Return the metadata once it is newer than a version; raise TimedOut."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self.metadata.version <= last_version:
                    await self._next_update()
                    if self.metadata.version <= last_version:
                        # The response in flight never came: one request was sent instead of two.
                        self.request_update()
        except TimeoutError:
            raise self._timed_out(f"metadata not updated within {timeout_ms} ms") from None
        return self.metadata

    async def wait_for_topic(self, name: str, timeout_ms: int, partition: int | None) -> TopicMetadata:
        """Return a tracked topic once it is known.

        A missing partition may have been added since the last update: metadata is requested once more before
        the call fails.
        """
        checked_version: int | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while (metadata := self._usable(name, partition)) is None:
                    if (topic := self.metadata.topics.get(name)) is not None:
                        lacks_partition = topic.error is ErrorCode.NONE
                        if (
                            lacks_partition
                            and checked_version is not None
                            and self.metadata.version > checked_version
                        ):
                            raise _missing_partition(topic, partition)
                        last_version = self.request_update()
                        if lacks_partition and checked_version is None:
                            checked_version = last_version
                    await self._next_update()
        except TimeoutError:
            raise self._topic_timed_out(name, timeout_ms) from None
        return metadata

    def _usable(self, name: str, partition: int | None) -> TopicMetadata | None:
        topic = self.metadata.topics.get(name)
        if topic is None:
            return None
        if topic.error is not ErrorCode.NONE:
            if topic.error.retriable:
                return None
            raise broker_error(topic.error, f"topic {name}")
        return topic if partition is None or partition < len(topic.partitions) else None

    def _topic_timed_out(self, name: str, timeout_ms: int) -> ClientError:
        what = f"topic {name} not present in metadata after {timeout_ms} ms"
        topic = self.metadata.topics.get(name)
        if topic is None or topic.error is ErrorCode.NONE:
            return self._timed_out(what)
        return broker_error(topic.error, what)

    def _timed_out(self, what: str) -> TimedOut:
        """Return a timeout with the last error, or with the brokers that have not responded."""
        if self.last_error is None:
            return TimedOut(what, broker=self._candidates())
        error = TimedOut(f"{what}: {self.last_error}")
        error.broker = self.last_error.broker  # the message names it already
        return error

    async def _next_update(self) -> None:
        """Wait for the next update; raise if none will come."""
        update: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(update)
        try:
            await update
        finally:
            if update in self._waiting:
                self._waiting.remove(update)

    def fail_waiting(self, error: ClientError) -> None:
        waiting, self._waiting = self._waiting, []
        for update in waiting:
            if not update.done():
                update.set_exception(copy(error))

    def publish(self, metadata: ClusterMetadata) -> None:
        """Replace the metadata, call listeners, and wake waiting calls."""
        self.metadata = metadata
        self._on_update(metadata)
        for listener in list(self._listeners):
            listener(metadata)
        waiting, self._waiting = self._waiting, []
        for update in waiting:
            if not update.done():
                update.set_result(None)

    # The task.

    def wakeup(self) -> None:
        """Check the schedule again: it has changed."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def run(self) -> None:
        """Request metadata whenever it is due, until cancelled."""
        while True:
            await self._until_due()
            self.is_requesting = True
            try:
                await self._update()
            except Exception as failure:  # noqa: BLE001 - the task must survive, or metadata is never updated again
                log.failure("metadata_updater_failed", failure)
                self.schedule.on_failure(self._clock.monotonic_ms())
            finally:
                self.is_requesting = False

    async def _until_due(self) -> None:
        loop = asyncio.get_running_loop()
        while (wait_ms := self.schedule.due_at_ms() - self._clock.monotonic_ms()) > 0:
            wakeup = self._wakeup = loop.create_future()
            timer = loop.call_later(wait_ms / 1000, self.wakeup)
            try:
                await wakeup
            finally:
                timer.cancel()
                self._wakeup = None

    async def _update(self) -> None:
        topics = self.schedule.begin_request(self._clock.monotonic_ms())
        try:
            response = await self._send(
                RequestBuilder(MetadataRequest, lambda version: self._request(topics, version))
            )
        except (AuthenticationFailed, UnresolvedBootstrap, UnsupportedVersion) as rejection:
            log.warning("metadata_request_rejected", reason=str(rejection))
            self._fail(rejection)
            self.fail_waiting(rejection)
            return
        except (ConnectionFailed, TimedOut) as failure:
            log.debug("metadata_request_failed", reason=str(failure))
            self._fail(failure)
            return
        self.last_error = None
        self._apply(response)

    def _fail(self, error: ClientError) -> None:
        self.last_error = error
        self.schedule.on_failure(self._clock.monotonic_ms())

    def _request(self, names: list[str] | None, version: int) -> MetadataRequest:
        self._version = version
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        if version < _NO_TOPICS_SINCE:
            topics = topics or []
        allow_auto_create = self._allow_auto_create or version < _AUTO_CREATE_SINCE
        return MetadataRequest(topics, allow_auto_create)

    def _apply(self, response: MetadataResponse) -> None:
        old = self.metadata
        update = apply_metadata_response(
            old,
            response,
            has_reliable_epochs=self._version >= RELIABLE_EPOCHS_SINCE,
            keeps=self.schedule.retains,
        )
        new = update.metadata
        self.updated_ms = self._clock.monotonic_ms()
        is_changed = new._replace(version=old.version) != old
        self.schedule.on_response(self._clock.monotonic_ms(), is_changed=is_changed, is_stale=update.is_stale)
        self.publish(new)


def _missing_partition(topic: TopicMetadata, partition: int | None) -> ClientError:
    count = len(topic.partitions)
    what = f"topic {topic.name} has {count} partition{'' if count == 1 else 's'}, got partition {partition}"
    return broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
