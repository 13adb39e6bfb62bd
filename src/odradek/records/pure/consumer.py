"""What a consumer needs of the codec, in plain Python, gathered in one place."""

from odradek.records.pure.column_builder import ColumnBuilder
from odradek.records.pure.consumer_record import ConsumerRecord
from odradek.records.pure.record_reader import RecordReader, allocate_fetch_buffer

__all__ = ["ColumnBuilder", "ConsumerRecord", "RecordReader", "allocate_fetch_buffer"]
