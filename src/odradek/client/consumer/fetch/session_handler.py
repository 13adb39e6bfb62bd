"""The client's end of an incremental fetch session (KIP-227): one per broker that is fetched from.

The first request of a session names all partitions; later ones name those that are new or are to be read in
another way, and those to forget. What an answer, or its absence, means for the next request:

==========================================  =============================================================
what came                                   next request
==========================================  =============================================================
all partitions, and a session id            incremental, epoch 1
all partitions, session id 0                full again: the broker has no room for a session
some of the session's partitions            incremental, one epoch on
some of them, session id 0                  full: the broker has ended the session
partitions that do not fit, no answer, or   full, and the session that may still be there is ended with it
any error but the next
FETCH_SESSION_ID_NOT_FOUND                  full: there is no session to end
==========================================  =============================================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class PartitionFetch(NamedTuple):
    """How one partition is to be fetched."""

    topic_id: bytes
    offset: int
    max_bytes: int
    leader_epoch: int


class FetchSessionRequest(NamedTuple):
    """What the next request to the broker says of its session."""

    session_id: int
    epoch: int
    wanted: dict[TopicPartition, PartitionFetch]
    """Partitions that the request names, in the order of reading."""
    forgotten: dict[TopicPartition, bytes]
    """Partitions to drop from the session, with their topics' ids."""
    replaced: dict[TopicPartition, bytes]
    """Partitions of topics that were made anew, with their old ids: dropped too, where ids name topics."""
    uses_topic_ids: bool
    """False if an id is unknown: topics can then be named only as before Fetch 13."""

    @property
    def is_full(self) -> bool:
        return self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)


class FetchSessionHandler:
    """Call ``request`` for each fetch, then ``answered`` or ``failed`` once, before the next."""

    __slots__ = ("_epoch", "_partitions", "_session_id")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[TopicPartition, PartitionFetch] = {}

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionFetch]:
        """What the broker reads for this session."""
        return self._partitions

    def request(self, wanted: dict[TopicPartition, PartitionFetch]) -> FetchSessionRequest:
        """The request after which the session holds exactly these partitions."""
        uses_ids = all(each.topic_id != ZERO_TOPIC_ID for each in wanted.values())
        old = self._partitions
        if self._epoch == INITIAL_EPOCH:
            self._partitions = dict(wanted)
            return FetchSessionRequest(self._session_id, INITIAL_EPOCH, dict(wanted), {}, {}, uses_ids)
        named = {partition: each for partition, each in wanted.items() if old.get(partition) != each}
        forgotten = {partition: each.topic_id for partition, each in old.items() if partition not in wanted}
        uses_ids = uses_ids and ZERO_TOPIC_ID not in forgotten.values()
        replaced = {
            partition: old[partition].topic_id
            for partition, each in named.items()
            if partition in old and _is_another_topic(old[partition], each)
        }
        self._partitions = {
            **{partition: each for partition, each in old.items() if wanted.get(partition) == each},
            **named,
        }
        return FetchSessionRequest(self._session_id, self._epoch, named, forgotten, replaced, uses_ids)

    def answered(
        self, error: ErrorCode, session_id: int, partitions: Collection[TopicPartition], is_throttled: bool
    ) -> bool:
        """Note an answer; False if its partitions are not to be used."""
        if error is not ErrorCode.NONE:
            self._begin_anew(
                NO_SESSION if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id
            )
            return False
        was_full = self._epoch == INITIAL_EPOCH
        if was_full and is_throttled and not partitions:
            self._begin_anew(NO_SESSION)
            return False
        if not self._fits(partitions, was_full):
            self._begin_anew(NO_SESSION if was_full else self._session_id)
            return False
        if session_id == NO_SESSION:
            self._begin_anew(NO_SESSION)
        else:
            self._session_id = session_id
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
        return True

    def failed(self) -> None:
        """Note that no answer came: the broker may have served the request or not."""
        self._begin_anew(self._session_id)

    def closing(self) -> FetchSessionRequest | None:
        """The request that ends the session, if there is one."""
        if self._session_id == NO_SESSION:
            return None
        return FetchSessionRequest(self._session_id, FINAL_EPOCH, {}, {}, {}, True)

    def _begin_anew(self, session_id: int) -> None:
        self._session_id = session_id
        self._epoch = INITIAL_EPOCH

    def _fits(self, partitions: Collection[TopicPartition], was_full: bool) -> bool:
        if was_full and len(partitions) != len(self._partitions):
            return False
        return all(partition in self._partitions for partition in partitions)


def _is_another_topic(before: PartitionFetch, now: PartitionFetch) -> bool:
    """Whether a topic was made anew under its old name."""
    return before.topic_id != now.topic_id and ZERO_TOPIC_ID not in (before.topic_id, now.topic_id)
