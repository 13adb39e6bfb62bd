"""Records as columns, gathered from one reader or several, in plain Python: what the compiled part does."""

from __future__ import annotations

from array import array

from odradek.records._consumer_record_py import ConsumerRecord
from odradek.records.layout import INT32_MAX, Columns


class _Cells:
    """Nullable bytes as Arrow lays them out."""

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
    """Rows for Arrow; ``finish`` gives them away and leaves the builder empty."""

    __slots__ = (
        "_header_ends",
        "_keys",
        "_names",
        "_numbers",
        "_topics",
        "_values",
        "_with_headers",
        "row_count",
    )

    def __init__(self, with_headers: bool = True) -> None:
        self._with_headers = with_headers
        self._clear()

    def _clear(self) -> None:
        self.row_count = 0
        self._topics: list[str] = []
        self._numbers = array("i"), array("i"), array("q"), array("q")
        self._keys, self._values = _Cells(), _Cells()
        self._names = _Cells(), _Cells()
        self._header_ends = array("i", [0])

    def add(self, record: ConsumerRecord) -> bool:
        """Add a row; False if offsets of 32 bits reach no further."""
        names, header_values = self._names
        fields = (record.key, record.value, *(field for pair in record.headers for field in pair))
        most = sum(len(field) * 4 for field in fields if field is not None)
        if max(len(cells.content) for cells in (self._keys, self._values, *self._names)) + most > INT32_MAX:
            return False
        if record.topic not in self._topics:
            self._topics.append(record.topic)
        row = (self._topics.index(record.topic), record.partition, record.offset, record.timestamp)
        for column, number in zip(self._numbers, row, strict=True):
            column.append(number)
        self._keys.add(record.key)
        self._values.add(record.value)
        if self._with_headers:
            for name, value in record.headers:
                names.add(name.encode())
                header_values.add(value)
            self._header_ends.append(names.count)
        self.row_count += 1
        return True

    def finish(self) -> Columns:
        """The columns."""
        names, header_values = self._names
        headers: tuple[bytearray, ...] = tuple(bytearray() for _ in range(6))
        if self._with_headers:
            ends = bytearray(self._header_ends.tobytes())
            headers = (ends, *names.buffers()[1:], *header_values.buffers())
        numbers = (bytearray(column.tobytes()) for column in self._numbers)
        made = Columns._make(
            (
                self.row_count,
                tuple(self._topics),
                *numbers,
                *self._keys.buffers(),
                *self._values.buffers(),
                *headers,
            )
        )
        self._clear()
        return made
