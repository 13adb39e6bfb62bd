"""What a consumer needs of the codec, in plain Python, gathered in one place."""

from odradek.records._column_builder_py import ColumnBuilder
from odradek.records._consumer_record_py import ConsumerRecord
from odradek.records._record_reader_py import RecordReader, blank_buffer

__all__ = ["ColumnBuilder", "ConsumerRecord", "RecordReader", "blank_buffer"]
