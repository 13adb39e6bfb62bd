"""What a producer needs of the codec, in plain Python, gathered in one place."""

from odradek.records.pure.delivery import Call, Delivery, OnDelivery, Waiting
from odradek.records.pure.murmur2 import murmur2, partition_for_key
from odradek.records.pure.producer_batch import ProducerBatch, record_size_upper_bound, refused_delivery
from odradek.records.pure.record_appender import RecordAppender, Touched
from odradek.records.pure.record_columns import (
    BytesColumn,
    HeadersColumn,
    NumbersColumn,
    RecordColumns,
    partitions_for_keys,
)

__all__ = [
    "RecordAppender",
    "BytesColumn",
    "Call",
    "Delivery",
    "HeadersColumn",
    "NumbersColumn",
    "OnDelivery",
    "ProducerBatch",
    "RecordColumns",
    "Touched",
    "Waiting",
    "murmur2",
    "partition_for_key",
    "partitions_for_keys",
    "record_size_upper_bound",
    "refused_delivery",
]
