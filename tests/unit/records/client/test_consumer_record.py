"""Generic aliases of ConsumerRecord."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import pytest

from odradek.records.client import consumer as client_consumer
from odradek.records.pure.consumer_record import ConsumerRecord as PlainRecord


@pytest.mark.parametrize("record", [client_consumer.ConsumerRecord, PlainRecord], ids=["codec", "plain"])
def test_generic_alias_of_key_and_value_types(record: Any) -> None:
    alias = record[str, bytes]
    assert (get_origin(alias), get_args(alias)) == (record, (str, bytes))
    instance = alias("orders", 0, 42, -1, None, "k", b"v")
    assert type(instance) is record
    assert (instance.key, instance.value) == ("k", b"v")
