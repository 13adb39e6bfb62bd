"""Keeps a client's metadata of the cluster up to date, and lets others wait for it.

One task asks for metadata when ``MetadataSchedule`` says so. Whoever waits is woken by each new metadata, or
told why none will come: the client was closed, or brokers refuse to speak with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, Final

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
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

log = events.logger("client")

Listener = Callable[[ClusterMetadata], None]

_NO_TOPICS_SINCE: Final = 1
_AUTO_CREATE_SINCE: Final = 4


class MetadataUpdater:
    """Owner of the metadata. ``ask`` sends a request to any broker; ``learned`` is called before
    listeners.
    """

    def __init__(
        self,
        interest: MetadataSchedule,
        clock: Clock,
        ask: Callable[[Any], Awaitable[Any]],
        learned: Callable[[ClusterMetadata], None],
        *,
        may_create: bool,
        whom: Callable[[], str],
    ) -> None:
        """``whom`` names the brokers that may be asked."""
        self.metadata = EMPTY_METADATA
        self.interest = interest
        self.is_asking = False
        self.trouble: ClientError | None = None
        """Why the last attempt to ask failed; None if it did not."""

        self.refreshed_ms = clock.monotonic_ms()
        self._clock = clock
        self._ask = ask
        self._learned = learned
        self._may_create = may_create
        self._whom = whom
        self._listeners: list[Listener] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._woken: asyncio.Future[None] | None = None
        self._version = 0

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def request(self) -> int:
        """Ask soon; gives the version that the answer will be beyond."""
        self.interest.request()
        self.wake()
        # An answer that is under way may have been written before the reason to ask arose.
        return self.metadata.version + self.is_asking

    # Waiting.

    async def refreshed(self, beyond: int, timeout_ms: int) -> ClusterMetadata:
        """The metadata once it is newer than a version; raises TimedOut."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self.metadata.version <= beyond:
                    await self.next_image()
                    if self.metadata.version <= beyond:
                        # The answer that was under way never came, and one was asked for instead of two.
                        self.request()
        except TimeoutError:
            raise self._late(f"no metadata within {timeout_ms} ms") from None
        return self.metadata

    async def topic(self, name: str, timeout_ms: int, partition: int | None) -> TopicMetadata:
        """A topic that is followed, once it is known.

        A partition that it does not have may have been added since: metadata is asked for once more, and
        then the partition is refused.
        """
        asked: int | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while (found := self._usable(name, partition)) is None:
                    if (topic := self.metadata.topics.get(name)) is not None:
                        lacks_partition = topic.error is ErrorCode.NONE
                        if lacks_partition and asked is not None and self.metadata.version > asked:
                            raise _missing(topic, partition)
                        beyond = self.request()
                        if lacks_partition and asked is None:
                            asked = beyond
                    await self.next_image()
        except TimeoutError:
            raise self._still_missing(name, timeout_ms) from None
        return found

    def _usable(self, name: str, partition: int | None) -> TopicMetadata | None:
        topic = self.metadata.topics.get(name)
        if topic is None:
            return None
        if topic.error is not ErrorCode.NONE:
            if topic.error.retriable:
                return None
            raise broker_error(topic.error, f"topic {name}")
        return topic if partition is None or partition < len(topic.partitions) else None

    def _still_missing(self, name: str, timeout_ms: int) -> ClientError:
        topic = self.metadata.topics.get(name)
        if topic is None or topic.error is ErrorCode.NONE:
            return self._late(f"no metadata of topic {name} within {timeout_ms} ms")
        return broker_error(topic.error, f"topic {name} is not there after {timeout_ms} ms")

    def _late(self, what: str) -> TimedOut:
        """Time is over; if brokers could not be asked, the words say why, else who has said nothing."""
        if self.trouble is None:
            return TimedOut(what, broker=self._whom())
        late = TimedOut(f"{what}: {self.trouble}")
        late.broker = self.trouble.broker  # the words name it already
        return late

    async def next_image(self) -> None:
        """Wait for another metadata; raises what keeps it from coming."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        try:
            await change
        finally:
            if change in self._waiting:
                self._waiting.remove(change)

    def fail_waiting(self, reason: ClientError) -> None:
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_exception(copy(reason))

    def publish(self, metadata: ClusterMetadata) -> None:
        """Replace the metadata, and tell everybody."""
        self.metadata = metadata
        self._learned(metadata)
        for listener in list(self._listeners):
            listener(metadata)
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)

    # The task.

    def wake(self) -> None:
        """Something changed that may make metadata due."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def run(self) -> None:
        """Ask whenever it is time, for ever."""
        while True:
            await self._until_due()
            self.is_asking = True
            try:
                await self._refresh()
            except Exception as broken:  # noqa: BLE001 - the edge of a task: without it a client learns nothing more
                log.failure("metadata_updater_failed", broken)
                self.interest.fail(self._clock.monotonic_ms())
            finally:
                self.is_asking = False

    async def _until_due(self) -> None:
        loop = asyncio.get_running_loop()
        while (wait_ms := self.interest.due_at_ms() - self._clock.monotonic_ms()) > 0:
            woken = self._woken = loop.create_future()
            alarm = loop.call_later(wait_ms / 1000, self.wake)
            try:
                await woken
            finally:
                alarm.cancel()
                self._woken = None

    async def _refresh(self) -> None:
        asked = self.interest.begin(self._clock.monotonic_ms())
        try:
            response = await self._ask(
                RequestBuilder(MetadataRequest, lambda version: self._request(asked, version))
            )
        except (AuthenticationFailed, UnresolvedBootstrap, UnsupportedVersion) as refused:
            log.warning("metadata_request_rejected", reason=str(refused))
            self._fail(refused)
            self.fail_waiting(refused)
            return
        except (ConnectionFailed, TimedOut) as failed:
            log.debug("metadata_request_failed", reason=str(failed))
            self._fail(failed)
            return
        self.trouble = None
        self._apply(response)

    def _fail(self, reason: ClientError) -> None:
        self.trouble = reason
        self.interest.fail(self._clock.monotonic_ms())

    def _request(self, asked: list[str] | None, version: int) -> MetadataRequest:
        self._version = version
        topics = None if asked is None else [MetadataRequestTopic(name=name) for name in asked]
        if version < _NO_TOPICS_SINCE:
            topics = topics or []
        may_create = self._may_create or version < _AUTO_CREATE_SINCE
        return MetadataRequest(topics, may_create)

    def _apply(self, response: Any) -> None:
        old = self.metadata
        update = apply_metadata_response(
            old,
            response,
            has_reliable_epochs=self._version >= RELIABLE_EPOCHS_SINCE,
            keeps=self.interest.wants,
        )
        new = update.metadata
        self.refreshed_ms = self._clock.monotonic_ms()
        is_news = new._replace(version=old.version) != old
        self.interest.answer(self._clock.monotonic_ms(), is_news=is_news, is_unsettled=update.is_unsettled)
        self.publish(new)


def _missing(topic: TopicMetadata, partition: int | None) -> ClientError:
    count = len(topic.partitions)
    what = f"topic {topic.name} has {count} partition{'' if count == 1 else 's'}, got partition {partition}"
    return broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
