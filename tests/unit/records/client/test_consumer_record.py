"""Records that consumers get can be named with the types of their keys and values."""

from __future__ import annotations

from typing import get_args, get_origin

import pytest

from odradek.records import codec
from odradek.records.pure.consumer_record import ConsumerRecord as PlainRecord


@pytest.mark.parametrize("record", [codec.ConsumerRecord, PlainRecord], ids=["codec", "plain"])
def test_types_of_key_and_value_can_be_given(record: type) -> None:
    alias = record[str, bytes]
    assert (get_origin(alias), get_args(alias)) == (record, (str, bytes))
    made = alias("orders", 0, 42, -1, None, "k", b"v")
    assert type(made) is record
    assert (made.key, made.value) == ("k", b"v")
