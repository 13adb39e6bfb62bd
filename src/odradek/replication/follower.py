"""The local replica of a partition while another broker leads it."""

from __future__ import annotations

from odradek.log.log import Log
from odradek.model.ids import TopicPartition


class Follower:
    """Replaced whole at every change of role or leader epoch; whoever holds a replaced one must not write."""

    __slots__ = ("is_active", "leader_epoch", "leader_id", "log", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, log: Log, leader_id: int, leader_epoch: int) -> None:
        self.topic_partition = topic_partition
        self.log = log
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.is_active = True
