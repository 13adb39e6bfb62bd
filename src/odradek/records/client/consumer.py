"""Records, columns and fetch buffers of consumers, ``compiled`` or ``pure``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.records.implementation import COMPILED

if TYPE_CHECKING or not COMPILED:
    from odradek.records.pure.column_builder import ColumnBuilder
    from odradek.records.pure.consumer_record import ConsumerRecord
    from odradek.records.pure.record_reader import RecordReader, allocate_fetch_buffer
else:
    from odradek.records.compiled import consumer

    ColumnBuilder = consumer.ColumnBuilder
    ConsumerRecord = consumer.ConsumerRecord
    RecordReader = consumer.RecordReader
    allocate_fetch_buffer = consumer.allocate_fetch_buffer

__all__ = ["ColumnBuilder", "ConsumerRecord", "RecordReader", "allocate_fetch_buffer"]
