"""Batches, deliveries and columns of producers, ``compiled`` or ``pure``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.records.implementation import COMPILED

if TYPE_CHECKING or not COMPILED:
    from odradek.records.pure.delivery import Delivery
    from odradek.records.pure.murmur2 import murmur2, partition_for_key
    from odradek.records.pure.producer_batch import ProducerBatch, record_size_upper_bound
    from odradek.records.pure.record_appender import RecordAppender
    from odradek.records.pure.record_columns import (
        BytesColumn,
        HeadersColumn,
        NumbersColumn,
        RecordColumns,
        partitions_for_keys,
    )
else:
    from odradek.records.compiled import producer

    BytesColumn = producer.BytesColumn
    Delivery = producer.Delivery
    HeadersColumn = producer.HeadersColumn
    NumbersColumn = producer.NumbersColumn
    ProducerBatch = producer.ProducerBatch
    RecordAppender = producer.RecordAppender
    RecordColumns = producer.RecordColumns
    murmur2 = producer.murmur2
    partition_for_key = producer.partition_for_key
    partitions_for_keys = producer.partitions_for_keys
    record_size_upper_bound = producer.record_size_upper_bound

__all__ = [
    "BytesColumn",
    "Delivery",
    "HeadersColumn",
    "NumbersColumn",
    "ProducerBatch",
    "RecordAppender",
    "RecordColumns",
    "murmur2",
    "partition_for_key",
    "partitions_for_keys",
    "record_size_upper_bound",
]
