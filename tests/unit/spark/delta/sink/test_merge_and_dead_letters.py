"""Upserts, and rows that are sent to a dead-letter topic."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from odradek.spark.delta.errors import InvalidRows, SchemaMismatch, TableOptionError
from odradek.spark.delta.options import read_sink_options
from odradek.spark.delta.sink import dead_letters
from odradek.spark.delta.sink.commits import AppTransaction
from odradek.spark.delta.sink.merge import latest_rows, merge_condition
from odradek.spark.delta.sink.writer import TableWriter

pairs = st.lists(st.tuples(st.integers(0, 3) | st.none(), st.integers() | st.none()), min_size=1)


@given(pairs.filter(lambda rows: all(-(2**63) <= (order or 0) < 2**63 for _, order in rows)))
def test_latest_row_per_key_has_the_greatest_order(rows: list[tuple[int | None, int | None]]) -> None:
    options = read_sink_options({"path": "t", "keys": "k", "orderBy": "o"})
    table = pa.table(
        {"k": pa.array([key for key, _ in rows], pa.int64()), "o": pa.array([o for _, o in rows], pa.int64())}
    )
    result = {row["k"]: row["o"] for row in latest_rows(table, options).to_pylist()}
    lowest = -(2**63) - 1
    expected = {
        key: max(
            (order for k, order in rows if k == key), key=lambda order: lowest if order is None else order
        )
        for key, _ in rows
    }
    assert result == expected


def test_duplicate_keys_without_order_are_reported() -> None:
    options = read_sink_options({"path": "t", "keys": "k"})
    with pytest.raises(InvalidRows, match=r"1 keys have several rows in one batch, such as \{'k': 1\}"):
        latest_rows(pa.table({"k": [1, 2, 1], "v": [1, 2, 3]}), options)


def test_duplicate_keys_in_a_batch_require_order_by(tmp_path: Path) -> None:
    rows = pa.record_batch({"k": [1, 1, 2], "name": ["new", "old", "only"], "seq": [2, 1, 1]})

    def upsert(**options: str) -> None:
        raw_options = {"path": str(tmp_path / "t"), "keys": "k", **options}
        writer = TableWriter(read_sink_options(raw_options), from_arrow_schema(rows.schema), overwrite=False)
        # Two tasks with rows of the same key.
        messages = [writer.write(iter([rows.slice(0, 1)])), writer.write(iter([rows.slice(1)]))]
        try:
            writer.commit(messages, AppTransaction("a", 0))
        finally:
            # Spark does so after a failed commit; after a successful one it changes nothing.
            writer.abort(messages)

    with pytest.raises(InvalidRows, match="orderBy"):
        upsert()
    upsert(orderBy="seq")
    table_rows = pa.table(DeltaTable(str(tmp_path / "t")).scan()).to_pylist()
    assert {row["k"]: row["name"] for row in table_rows} == {1: "new", 2: "only"}
    assert not list((tmp_path / "t" / "_odradek_staging").iterdir())


def test_merge_condition_quotes_keys_and_equates_nulls() -> None:
    assert merge_condition(("a", 'b"c'), has_nulls=False) == 't."a" = s."a" AND t."b""c" = s."b""c"'
    assert merge_condition(("a",), has_nulls=True) == 't."a" IS NOT DISTINCT FROM s."a"'


def test_an_upsert_into_a_partitioned_table_moves_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")

    def upsert(version: int, columns: dict[str, Any]) -> None:
        rows = pa.record_batch(columns)
        options = read_sink_options({"path": path, "keys": "Key Col", "partitionBy": "day"})
        writer = TableWriter(options, from_arrow_schema(rows.schema), overwrite=False)
        writer.commit([writer.write(iter([rows]))], AppTransaction("a", version))

    upsert(0, {"Key Col": [1, 2], "day": ["mon", "mon"], "v": [1, 1]})
    upsert(1, {"Key Col": [2, 3], "day": ["tue", "tue"], "v": [2, 2]})
    upsert(1, {"Key Col": [2, 3], "day": ["wed", "wed"], "v": [3, 3]})
    table_rows = pa.table(DeltaTable(path).scan()).to_pylist()
    assert {(row["Key Col"], row["day"], row["v"]) for row in table_rows} == {
        (1, "mon", 1),
        (2, "tue", 2),
        (3, "tue", 2),
    }
    assert not list((tmp_path / "t" / "_odradek_staging").iterdir())


DEAD = pa.struct(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("reason", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def letter(value: bytes, **fields: Any) -> dict[str, Any]:
    return {"key": b"k", "value": value, "headers": None, "reason": "no JSON", "offset": 7, **fields}


def test_dead_letter_keeps_its_bytes_and_has_reason_headers() -> None:
    at = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    row = letter(b"{", headers=[{"key": "h", "value": None}], timestamp=at)
    assert list(dead_letters.records(pa.array([row], DEAD))) == [
        (
            b"{",
            b"k",
            [
                ("h", None),
                ("dead.reason", b"no JSON"),
                ("dead.offset", b"7"),
                ("dead.timestamp", b"2026-01-31T12:00:00.000+00:00"),
            ],
        )
    ]


class _Producer:
    """Producer that fails records with the value ``fail``."""

    created: ClassVar[list[_Producer]] = []

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.sent: list[bytes] = []
        self.is_closed = False
        self.created.append(self)

    def send(self, topic: str, value: bytes, *, key: Any, headers: Any, on_delivery: Any) -> None:
        self.sent.append(value)
        on_delivery(None, RuntimeError("no such broker") if value == b"fail" else None)

    def flush(self) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> list[_Producer]:
    monkeypatch.setattr(dead_letters, "Producer", _Producer)
    monkeypatch.setattr(_Producer, "created", [])
    return _Producer.created


def _write(path: Path, values: list[bytes | None], **options: str) -> None:
    rows = pa.record_batch(
        {
            "id": pa.array(range(len(values))),
            "_dead": pa.array([None if value is None else letter(value) for value in values], DEAD),
        }
    )
    raw_options = {
        "path": str(path),
        "deadLetterTopic": "dlq",
        "deadLetter.kafka.bootstrap.servers": "b:1",
        **options,
    }
    writer = TableWriter(read_sink_options(raw_options), from_arrow_schema(rows.schema), overwrite=False)
    writer.commit([writer.write(iter([rows]))], None)


def test_dead_letters_go_to_the_topic_and_other_rows_to_the_table(
    tmp_path: Path, producers: list[_Producer]
) -> None:
    _write(tmp_path / "t", [None, b"x", None, b"y"])
    assert pa.table(DeltaTable(str(tmp_path / "t")).scan()).to_pydict() == {"id": [0, 2]}
    assert [(created.settings, created.sent, created.is_closed) for created in producers] == [
        ({"bootstrap.servers": "b:1"}, [b"x", b"y"], True)
    ]
    _write(tmp_path / "t", [None])
    assert len(producers) == 1


def test_failed_dead_letter_fails_the_task(tmp_path: Path, producers: list[_Producer]) -> None:
    with pytest.raises(InvalidRows, match=r"could not be sent to dlq \(no such broker\)"):
        _write(tmp_path / "t", [None, b"fail"])
    assert not list((tmp_path / "t").iterdir())


def test_too_many_dead_letters_fail_the_batch(tmp_path: Path, producers: list[_Producer]) -> None:
    with pytest.raises(InvalidRows, match=r"2 of 4 rows .* deadLetterMaxRatio=0\.25"):
        _write(tmp_path / "t", [None, b"x", None, b"y"], deadLetterMaxRatio="0.25")
    assert not (tmp_path / "t" / "_delta_log").exists()
    _write(tmp_path / "t", [None, b"x"], deadLetterMaxRatio="0.25")


def test_dead_letters_require_a_topic_and_a_value() -> None:
    plain = read_sink_options({"path": "t"})
    with pytest.raises(TableOptionError, match="deadLetterTopic"):
        dead_letters.check_frame(from_arrow_schema(pa.schema([("_dead", DEAD)])), plain)
    with pytest.raises(SchemaMismatch, match="a struct with at least a field value"):
        dead_letters.check_frame(from_arrow_schema(pa.schema([("_dead", pa.string())])), plain)
