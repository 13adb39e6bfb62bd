"""Client side of incremental fetch sessions (KIP-227), one per broker, of consumers and followers.

The first request of a session lists all partitions; later ones list added, changed and forgotten partitions.
The next request depends on the response:

==========================================  =============================================================
response                                    next request
==========================================  =============================================================
all partitions, and a session id            incremental, epoch 1
all partitions, session id 0                full: the broker has no slot for a session
some partitions of the session              incremental, next epoch
some partitions, session id 0               full: the broker closed the session
unexpected partitions, no response, or      full, and it closes the session that may still exist
any error other than the next
FETCH_SESSION_ID_NOT_FOUND                  full: there is no session to close
==========================================  =============================================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET, ZERO_TOPIC_ID, TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class PartitionFetch(NamedTuple):
    """Fetch parameters of one partition."""

    topic_id: bytes
    offset: int
    max_bytes: int
    leader_epoch: int
    log_start_offset: int = UNKNOWN_OFFSET
    """Log start offset of a follower; consumers have none."""
    last_fetched_epoch: int = NO_LEADER_EPOCH
    """Epoch of a follower's last batch, to detect divergence from the leader."""


class FetchSessionRequest(NamedTuple):
    """Session fields and partitions of the next Fetch request."""

    session_id: int
    epoch: int
    to_send: dict[TopicPartition, PartitionFetch]
    """Partitions to list in the request, in fetch order."""
    forgotten: dict[TopicPartition, bytes]
    """Partitions to remove from the session, with their topic ids."""
    replaced: dict[TopicPartition, bytes]
    """Partitions of recreated topics, with their old ids: forgotten as well, where ids are used."""
    uses_topic_ids: bool
    """False if a topic id is unknown: the request must then use names (before Fetch 13)."""


class FetchSessionHandler:
    """Call ``build`` for each fetch, then ``handle_response`` or ``handle_error`` once, before the next."""

    __slots__ = ("_epoch", "_partitions", "_session_id")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[TopicPartition, PartitionFetch] = {}

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionFetch]:
        """Partitions in the session."""
        return self._partitions

    def build(self, partitions: dict[TopicPartition, PartitionFetch]) -> FetchSessionRequest:
        """Build the request after which the session holds exactly these partitions."""
        uses_ids = all(fetch.topic_id != ZERO_TOPIC_ID for fetch in partitions.values())
        old = self._partitions
        if self._epoch == INITIAL_EPOCH:
            self._partitions = dict(partitions)
            return FetchSessionRequest(self._session_id, INITIAL_EPOCH, dict(partitions), {}, {}, uses_ids)
        to_send = {partition: fetch for partition, fetch in partitions.items() if old.get(partition) != fetch}
        forgotten = {
            partition: fetch.topic_id for partition, fetch in old.items() if partition not in partitions
        }
        uses_ids = uses_ids and ZERO_TOPIC_ID not in forgotten.values()
        replaced = {
            partition: old[partition].topic_id
            for partition, fetch in to_send.items()
            if partition in old and is_recreated(old[partition], fetch)
        }
        self._partitions = {
            **{partition: fetch for partition, fetch in old.items() if partitions.get(partition) == fetch},
            **to_send,
        }
        return FetchSessionRequest(self._session_id, self._epoch, to_send, forgotten, replaced, uses_ids)

    def handle_response(
        self, error: ErrorCode, session_id: int, partitions: Collection[TopicPartition], is_throttled: bool
    ) -> bool:
        """Update the session from a response; return False if its partitions must not be used."""
        if error is not ErrorCode.NONE:
            self._restart(NO_SESSION if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id)
            return False
        was_full = self._epoch == INITIAL_EPOCH
        if was_full and is_throttled and not partitions:
            self._restart(NO_SESSION)
            return False
        if not self._is_expected(partitions, was_full):
            self._restart(NO_SESSION if was_full else self._session_id)
            return False
        if session_id == NO_SESSION:
            self._restart(NO_SESSION)
        else:
            self._session_id = session_id
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
        return True

    def handle_error(self) -> None:
        """Restart the session after a request without a response: the broker may have handled it or not."""
        self._restart(self._session_id)

    def build_close(self) -> FetchSessionRequest | None:
        """Build the request that closes the session; None if there is none."""
        if self._session_id == NO_SESSION:
            return None
        return FetchSessionRequest(self._session_id, FINAL_EPOCH, {}, {}, {}, True)

    def _restart(self, session_id: int) -> None:
        self._session_id = session_id
        self._epoch = INITIAL_EPOCH

    def _is_expected(self, partitions: Collection[TopicPartition], was_full: bool) -> bool:
        if was_full and len(partitions) != len(self._partitions):
            return False
        return all(partition in self._partitions for partition in partitions)


def is_recreated(old: PartitionFetch, new: PartitionFetch) -> bool:
    """Return True if a topic was deleted and created again under the same name."""
    return old.topic_id != new.topic_id and ZERO_TOPIC_ID not in (old.topic_id, new.topic_id)
