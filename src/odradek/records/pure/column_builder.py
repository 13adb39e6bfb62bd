"""Builder of Arrow columns from the records of one or several readers."""

from __future__ import annotations

from array import array

from odradek.model.protocol_enums import TimestampType
from odradek.records.layout import INT32_MAX, INT64_MAX, POLL_COLUMNS, Columns, ColumnSet, Headers, saturated
from odradek.records.pure.consumer_record import ConsumerRecord


class _Cells:
    """Nullable bytes in Arrow's layout."""

    __slots__ = ("content", "count", "ends", "validity")

    def __init__(self) -> None:
        self.count = 0
        self.validity = bytearray()
        self.ends = array("i", [0])
        self.content = bytearray()

    def add(self, cell: bytes | None) -> None:
        if self.count % 8 == 0:
            self.validity.append(0)
        if cell is not None:
            self.validity[self.count >> 3] |= 1 << (self.count & 7)
            self.content += cell
        self.ends.append(len(self.content))
        self.count += 1

    def buffers(self) -> tuple[bytearray, bytearray, bytearray]:
        return self.validity, bytearray(self.ends.tobytes()), self.content


class ColumnBuilder:
    """Builds the selected columns; ``finish`` returns them and resets the builder.

    Takes no more rows once keys, values and headers have ``bytes_max`` bytes.
    """

    __slots__ = (
        "_bytes_max",
        "_columns",
        "_header_ends",
        "_header_validity",
        "_is_rejecting",
        "_keys",
        "_names",
        "_numbers",
        "_topics",
        "_types",
        "_values",
        "row_count",
    )

    def __init__(self, columns: int = POLL_COLUMNS, bytes_max: int = INT64_MAX) -> None:
        self._columns = columns
        self._bytes_max = bytes_max
        self._clear()

    def _clear(self) -> None:
        self.row_count = 0
        self._is_rejecting = False
        self._topics: list[str] = []
        self._numbers = array("i"), array("i"), array("q"), array("q")
        self._types = array("i")
        self._keys, self._values = _Cells(), _Cells()
        self._names = _Cells(), _Cells()
        self._header_ends = array("i", [0])
        self._header_validity = bytearray()

    @property
    def is_full(self) -> bool:
        """True after a rejected row: ``finish`` must be called before more are added."""
        return self._is_rejecting and self.row_count > 0

    def _fits(self, record: ConsumerRecord) -> bool:
        sizes = [len(cells.content) for cells in (self._keys, self._values, *self._names)]
        if self.row_count and sum(sizes) >= self._bytes_max:
            return False
        fields = (record.key, record.value, *(field for pair in record.headers for field in pair))
        size_max = sum(len(field) * 4 for field in fields if field is not None)
        return max(sizes) + size_max <= INT32_MAX

    def add(self, record: ConsumerRecord) -> bool:
        """Add a row; False if there are ``bytes_max`` bytes, or 32-bit offsets would overflow."""
        if not self._fits(record):
            self._is_rejecting = True
            return False
        if record.topic not in self._topics:
            self._topics.append(record.topic)
        self._add_numbers(record)
        if self._columns & ColumnSet.KEYS:
            self._keys.add(record.key)
        if self._columns & ColumnSet.VALUES:
            self._values.add(record.value)
        if self._columns & ColumnSet.HEADERS:
            self._add_headers(record.headers)
        self.row_count += 1
        return True

    def _add_numbers(self, record: ConsumerRecord) -> None:
        topic_indices, partitions, offsets, timestamps = self._numbers
        if self._columns & ColumnSet.PARTITIONS:
            topic_indices.append(self._topics.index(record.topic))
            partitions.append(record.partition)
        if self._columns & ColumnSet.OFFSETS:
            offsets.append(record.offset)
        if self._columns & ColumnSet.TIMESTAMPS_US:
            timestamps.append(saturated(record.timestamp * 1000))
        elif self._columns & ColumnSet.TIMESTAMPS:
            timestamps.append(record.timestamp)
        if self._columns & ColumnSet.TIMESTAMP_TYPES:
            type_ = record.timestamp_type
            self._types.append(-1 if type_ is None else int(type_ is TimestampType.LOG_APPEND_TIME))

    def _add_headers(self, headers: Headers) -> None:
        names, values = self._names
        if self.row_count % 8 == 0:
            self._header_validity.append(0)
        if headers:
            self._header_validity[self.row_count >> 3] |= 1 << (self.row_count & 7)
        for name, value in headers:
            names.add(name.encode())
            values.add(value)
        self._header_ends.append(names.count)

    def finish(self) -> Columns:
        """Return the columns and reset the builder."""
        names, header_values = self._names
        headers: tuple[bytearray, ...] = tuple(bytearray() for _ in range(7))
        if self._columns & ColumnSet.HEADERS:
            ends = bytearray(self._header_ends.tobytes())
            headers = (self._header_validity, ends, *names.buffers()[1:], *header_values.buffers())
        no_cells = bytearray(), bytearray(), bytearray()
        columns = Columns._make(
            (
                self.row_count,
                tuple(self._topics),
                *(bytearray(column.tobytes()) for column in (*self._numbers, self._types)),
                *(self._keys.buffers() if self._columns & ColumnSet.KEYS else no_cells),
                *(self._values.buffers() if self._columns & ColumnSet.VALUES else no_cells),
                *headers,
            )
        )
        self._clear()
        return columns
