"""One runner per pipeline: who runs it holds a lease, here and in the cluster.

A local checkpoint is locked by a file lock, which ends with its process. Where a pipeline has brokers, its
runner is also the one member of a consumer group that owns the only partition of a topic: brokers give it to
somebody else when the runner has been silent for the session timeout. A member that has it keeps it when
others join (cooperative-sticky), so nobody can take it away.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.pipelines.checkpoint.lease_holder import is_dead_here, parse_holder
from odradek.pipelines.checkpoint.lock import LeaseTaken, local_lock, lock_holder, me, taken_words
from odradek.pipelines.clusters import admin_for, settings_for
from odradek.pipelines.spec.model import Spec

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin

__all__ = ["GroupLease", "LeaseTaken", "group_of", "held", "holder", "joining", "local_lock"]

TOPIC: Final = "__pipeline_leases"
"""It never holds a record: its one partition is what is owned."""
SESSION_MS: Final = 10_000
JOIN_S: Final = 20.0
"""Time to join: brokers let the first member of a group wait for others for some seconds."""
_POLL_S: Final = 0.5


def group_of(spec: Spec) -> str:
    return f"__lease.{spec.name}"


def _options(spec: Spec) -> dict[str, str]:
    of_source = spec.lease_brokers == spec.source.brokers
    return dict(spec.source.options if of_source else spec.sink.options)


def holder(spec: Spec) -> str | None:
    """Who runs this pipeline, as ``host:pid``; asked without taking anything."""
    locked = lock_holder(spec)
    if locked is not None or spec.lease_brokers is None:
        return locked
    with admin_for(spec.lease_brokers, _options(spec)) as admin:
        return _member(admin, spec)


def _member(admin: Admin, spec: Spec) -> str | None:
    """The client id of the member that owns the lease; of any member while none does."""
    members = admin.describe_groups([group_of(spec)])[group_of(spec)].members
    owners = [one.client_id for one in members if one.partitions] or [one.client_id for one in members]
    return owners[0] if owners else None


@contextmanager
def held(spec: Spec, say: Callable[[str], None] = lambda words: None) -> Iterator[GroupLease | None]:
    """Have the lease, or raise LeaseTaken; tells what it waits for. None where there are no brokers."""
    with ExitStack() as opened:
        opened.enter_context(local_lock(spec))
        if spec.lease_brokers is None:
            yield None
            return
        lease = opened.enter_context(joining(spec, say))
        lease.wait()
        yield lease


@contextmanager
def joining(spec: Spec, say: Callable[[str], None]) -> Iterator[GroupLease]:
    """A lease that is being taken while the caller does something else; ``wait`` ends that."""
    _wait_for_others(spec, say)
    lease = GroupLease(spec)
    try:
        yield lease
    finally:
        lease.close()


def _wait_for_others(spec: Spec, say: Callable[[str], None]) -> None:
    """Until nobody has the lease. One who died here is waited for; one who lives is not."""
    pause = threading.Event()
    with admin_for(spec.lease_brokers or "", _options(spec)) as admin:
        _ensure_topic(admin)
        for attempt in range(int((SESSION_MS / 1000 + 3) / _POLL_S)):
            found = _member(admin, spec)
            if found is None:
                return
            other = parse_holder(found)
            if other is not None and other.host == platform.node() and not is_dead_here(other.pid):
                break
            if attempt == 0:
                say(
                    f"waiting for {found}, who had {spec.name} last: a runner that was killed loses it "
                    f"within {SESSION_MS // 1000} s"
                )
            pause.wait(_POLL_S)
        else:
            found = _member(admin, spec)
            if found is None:
                return
    raise LeaseTaken(taken_words(spec, found))


def _ensure_topic(admin: Admin) -> None:
    from odradek import NewTopic

    if TOPIC in admin.list_topics():
        return
    try:
        admin.create_topics([NewTopic(TOPIC, 1)])
    except ClientError as failed:
        if failed.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


class GroupLease:
    """Membership of the group, kept up by a thread of its own."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._is_held = threading.Event()
        self._is_over = threading.Event()
        self._is_settled = threading.Event()
        self._failure: ClientError | None = None
        self.on_lost: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    @property
    def is_held(self) -> bool:
        return self._is_held.is_set()

    def wait(self, timeout_s: float = JOIN_S) -> None:
        """Until the lease is had; raises LeaseTaken if it goes to somebody else."""
        self._is_settled.wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        if not self._is_held.is_set():
            raise LeaseTaken(taken_words(self._spec, self._owner()))

    def close(self) -> None:
        """Leave the group, so that the next one need not wait."""
        self._is_over.set()
        self._thread.join(timeout=5)

    def _owner(self) -> str | None:
        with admin_for(self._spec.lease_brokers or "", _options(self._spec)) as admin:
            return _member(admin, self._spec)

    def _keep(self) -> None:
        from odradek import Consumer

        try:
            with Consumer(self._settings()) as consumer:
                consumer.subscribe([TOPIC], listener=self)
                while not self._is_over.is_set():
                    consumer.poll(timeout_s=_POLL_S)
        except ClientError as failed:
            self._failure = failed
            self._lose()
        self._is_settled.set()

    def _settings(self) -> dict[str, object]:
        from odradek.config.client import CONSUMER

        return {
            **settings_for(CONSUMER, self._spec.lease_brokers or "", _options(self._spec)),
            "group.id": group_of(self._spec),
            "client.id": me(),
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 5,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }

    def _lose(self) -> None:
        if self._is_held.is_set():
            self._is_held.clear()
            self._is_settled.clear()
            if not self._is_over.is_set():
                self.on_lost()

    # What the consumer tells, inside ``poll``.

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._is_held.set()
        self._is_settled.set()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._lose()

    on_partitions_lost = on_partitions_revoked
