"""The lease of a pipeline, which ensures one runner per pipeline, on this host and in the cluster.

A local checkpoint is locked by a file lock, which ends with its process. If a pipeline has brokers, its
runner is also the member of a consumer group that owns the only partition of a topic: brokers reassign it
when the runner misses heartbeats for the session timeout. An owner keeps it when others join
(cooperative-sticky).
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.pipelines.checkpoint.checkpoint import SIDECAR_DIRECTORY, Checkpoint
from odradek.pipelines.clusters import admin_for, settings_for
from odradek.pipelines.spec.model import Spec

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin

TOPIC: Final = "__pipeline_leases"
"""Never holds a record: owning its one partition is the lease."""
SESSION_MS: Final = 10_000
JOIN_S: Final = 20.0
"""Time to join: brokers delay the first rebalance of a group."""
_POLL_S: Final = 0.5
LOCK_FILE: Final = "lease"
_HOLDER: Final = re.compile(r"(.+):(\d+)")


class LeaseTaken(Exception):
    """Raised when another process runs this pipeline."""


def group_of(spec: Spec) -> str:
    return f"__lease.{spec.name}"


def _options(spec: Spec) -> dict[str, str]:
    of_source = spec.lease_brokers == spec.source.brokers
    return dict(spec.source.options if of_source else spec.sink.options)


def holder(spec: Spec) -> str | None:
    """Return the runner of this pipeline as ``host:pid``, without taking the lease."""
    locked = lock_holder(spec)
    if locked is not None or spec.lease_brokers is None:
        return locked
    with admin_for(spec.lease_brokers, _options(spec)) as admin:
        return _member(admin, spec)


def _member(admin: Admin, spec: Spec) -> str | None:
    """Return the client id of the member that owns the lease; of any member while none does."""
    members = admin.describe_groups([group_of(spec)])[group_of(spec)].members
    owners = [member.client_id for member in members if member.partitions]
    owners = owners or [member.client_id for member in members]
    return owners[0] if owners else None


@contextmanager
def hold(spec: Spec, report: Callable[[str], None] = lambda message: None) -> Iterator[GroupLease | None]:
    """Hold the lease, or raise LeaseTaken; report waiting. The value is None without brokers."""
    with ExitStack() as opened:
        opened.enter_context(local_lock(spec))
        if spec.lease_brokers is None:
            yield None
            return
        lease = opened.enter_context(joining(spec, report))
        lease.wait()
        yield lease


@contextmanager
def joining(spec: Spec, report: Callable[[str], None]) -> Iterator[GroupLease]:
    """Start to take the lease in the background; the caller calls ``wait`` before it needs the lease."""
    _wait_for_others(spec, report)
    lease = GroupLease(spec)
    try:
        yield lease
    finally:
        lease.close()


def _wait_for_others(spec: Spec, report: Callable[[str], None]) -> None:
    """Wait until the lease is free; raise LeaseTaken if its holder is alive on this host."""
    pause = threading.Event()
    with admin_for(spec.lease_brokers or "", _options(spec)) as admin:
        _ensure_topic(admin)
        for attempt in range(int((SESSION_MS / 1000 + 3) / _POLL_S)):
            client_id = _member(admin, spec)
            if client_id is None:
                return
            other = parse_holder(client_id)
            if other is not None and other.host == platform.node() and not is_process_dead(other.pid):
                break
            if attempt == 0:
                report(
                    f"waiting for the lease of {spec.name}, held by {client_id}; a killed runner loses it "
                    f"within {SESSION_MS // 1000} s"
                )
            pause.wait(_POLL_S)
        else:
            client_id = _member(admin, spec)
            if client_id is None:
                return
    raise LeaseTaken(taken_message(spec, client_id))


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
    """Membership of the lease group, maintained by a thread."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._is_held = threading.Event()
        self._is_closed = threading.Event()
        self._is_decided = threading.Event()
        self._failure: ClientError | None = None
        self.on_lost: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float = JOIN_S) -> None:
        """Wait for the lease; raise LeaseTaken if another member gets it."""
        self._is_decided.wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        if not self._is_held.is_set():
            raise LeaseTaken(taken_message(self._spec, self._owner()))

    def close(self) -> None:
        """Leave the group, so that the next runner need not wait."""
        self._is_closed.set()
        self._thread.join(timeout=5)

    def _owner(self) -> str | None:
        with admin_for(self._spec.lease_brokers or "", _options(self._spec)) as admin:
            return _member(admin, self._spec)

    def _run(self) -> None:
        from odradek import Consumer

        try:
            with Consumer(self._settings()) as consumer:
                consumer.subscribe([TOPIC], listener=self)
                while not self._is_closed.is_set():
                    consumer.poll(timeout_s=_POLL_S)
        except ClientError as failed:
            self._failure = failed
            self._on_lost()
        self._is_decided.set()

    def _settings(self) -> dict[str, object]:
        from odradek.config.client import CONSUMER

        return {
            **settings_for(CONSUMER, self._spec.lease_brokers or "", _options(self._spec)),
            "group.id": group_of(self._spec),
            "client.id": holder_id(),
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 5,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }

    def _on_lost(self) -> None:
        if self._is_held.is_set():
            self._is_held.clear()
            self._is_decided.clear()
            if not self._is_closed.is_set():
                self.on_lost()

    # Rebalance listener, called in ``poll``.

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._is_held.set()
        self._is_decided.set()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._on_lost()

    on_partitions_lost = on_partitions_revoked


# The holder of a lease.


class Holder(NamedTuple):
    """A process that holds a lease."""

    host: str
    pid: int

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


def parse_holder(text: str) -> Holder | None:
    """Parse ``host:pid``, the client id of a lease holder; None if it is another client id."""
    match = _HOLDER.fullmatch(text)
    return None if match is None else Holder(match[1], int(match[2]))


def is_process_dead(pid: int) -> bool:
    """Return True if this host has no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def holder_id() -> str:
    """Return ``host:pid`` of this process."""
    return str(Holder(platform.node(), os.getpid()))


def taken_message(spec: Spec, holder: str | None) -> str:
    return (
        f"{spec.name} is already running: {holder or 'unknown holder'} (host:process). Stop it first; two "
        "runs at once would write twice"
    )


# File lock of a local checkpoint, released when its process ends.


@contextmanager
def local_lock(spec: Spec) -> Iterator[None]:
    """Hold the lock of a local checkpoint; do nothing for a remote one."""
    path = _lock_path(spec)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LeaseTaken(taken_message(spec, _read_holder(file))) from None
        file.truncate(0)
        file.write(json.dumps(holder_id()))
        file.flush()
        yield


def _lock_path(spec: Spec) -> Path | None:
    if not Checkpoint(spec.checkpoint).is_local:
        return None
    return Path(spec.checkpoint.removeprefix("file://")) / SIDECAR_DIRECTORY / LOCK_FILE


def lock_holder(spec: Spec) -> str | None:
    """Return the holder of the lock; None if it is free, or the checkpoint is remote."""
    path = _lock_path(spec)
    if path is None or not path.is_file():
        return None
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_holder(file)
    return None


def _read_holder(file: IO[str]) -> str | None:
    file.seek(0)
    try:
        return str(json.loads(file.read()))
    except ValueError:
        return None
