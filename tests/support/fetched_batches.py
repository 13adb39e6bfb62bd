"""Generated fetch responses: batches of all formats, transactions, gaps, a truncated last batch."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from odradek.model.protocol_enums import Compression
from odradek.records.batch import BatchBuilder, Record
from odradek.records.control_records import ControlRecordType, EndTransactionMarker, build_end_marker
from odradek.records.message_set import write_message_set

blobs = st.none() | st.binary(max_size=30)
headers = st.lists(st.tuples(st.text(max_size=6), blobs), max_size=2)
rows = st.lists(st.tuples(st.integers(-1, 2**42), blobs, blobs, headers), min_size=1, max_size=6)


def batch(base_offset: int, *values: bytes | None, **fields: Any) -> bytes:
    builder = BatchBuilder(base_offset, **fields)
    for value in values:
        builder.append(1_000, b"k", value)
    return builder.build()


def transactional(base_offset: int, producer_id: int, *values: bytes) -> bytes:
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    return batch(base_offset, *values, transactional=True, **fields)


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    end = EndTransactionMarker(kind, 0)
    return build_end_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=5, base_offset=offset)


@st.composite
def fetches(draw: st.DrawFn) -> bytes:
    """Draw batches of any format at increasing offsets, and perhaps a truncated last one."""
    parts = []
    offset = draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 4))):
        given_rows = draw(rows)
        magic = draw(st.sampled_from([0, 1, 2, 2, 2]))
        kind = draw(st.sampled_from(list(Compression)[: 5 if magic == 2 else 4]))
        producer = draw(st.sampled_from([-1, -1, 7, 8]))
        end = draw(st.sampled_from([None, None, None, ControlRecordType.ABORT, ControlRecordType.COMMIT]))
        if magic < 2:
            records = [
                Record(offset + index, time, key, value)
                for index, (time, key, value, _) in enumerate(given_rows)
            ]
            parts.append(write_message_set(records, magic, kind))
        elif end is not None:
            parts.append(marker(offset, max(producer, 0), end))
        else:
            builder = BatchBuilder(
                offset,
                compression=kind,
                leader_epoch=draw(st.integers(-1, 3)),
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=0 if producer >= 0 else -1,
                transactional=producer >= 0 and draw(st.booleans()),
                append_time_ms=draw(st.none() | st.integers(0, 2**40)),
            )
            for row in given_rows:
                builder.append(*row)
            parts.append(builder.build(last_offset=offset + len(given_rows) - 1 + draw(st.integers(0, 2))))
        offset += len(given_rows) + draw(st.integers(2, 4))
    data = b"".join(parts)
    return data[: len(data) - draw(st.sampled_from([0, 0, 1, 9, 40]))]


aborted_lists = st.none() | st.lists(st.tuples(st.sampled_from([7, 8, 0]), st.integers(0, 30)), max_size=3)
