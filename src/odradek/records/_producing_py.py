"""What a producer needs of the codec, in plain Python, gathered in one place."""

from odradek.records._appender_py import Appender, Touched
from odradek.records._delivery_py import Call, Delivery, OnDelivery, Waiting
from odradek.records._murmur2_py import murmur2, partition_of
from odradek.records._producer_batch_py import ProducerBatch, record_bytes_max, refused_delivery
from odradek.records._record_columns_py import (
    BytesColumn,
    HeadersColumn,
    NumbersColumn,
    RecordColumns,
    partitions_of,
)

__all__ = [
    "Appender",
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
    "partition_of",
    "partitions_of",
    "record_bytes_max",
    "refused_delivery",
]
