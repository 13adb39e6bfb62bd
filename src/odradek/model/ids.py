"""Ids of topics, partitions, brokers and producers.

Ids are plain numbers or strings at run time; the new types let a type checker tell them apart.
"""

from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER: Final = -1
NO_LEADER_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2
"""Leader epoch in StopReplica and UpdateMetadata for a deleted topic: higher than any other."""
UNKNOWN_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1

TopicId = bytes
"""Sixteen bytes, as on the wire."""

ZERO_TOPIC_ID: Final[TopicId] = bytes(16)

# Internal topics.
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka writes it in directory names.

    >>> from odradek import TopicPartition
    >>> str(TopicPartition("castle", 0))
    'castle-0'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
