"""A single string instead of a collection of names is rejected, not read as its letters."""

from __future__ import annotations

import pytest

from odradek import aio
from odradek.client.names import read_names


@pytest.mark.parametrize("names", [["a", "b"], ("a", "b"), {"a": 1, "b": 2}, (name for name in "ab")])
def test_read_names_returns_a_list(names) -> None:
    assert read_names(names, "topics") == ["a", "b"]


@pytest.mark.parametrize("names", ["visits", b"visits", ""])
def test_read_names_rejects_a_single_string(names) -> None:
    with pytest.raises(TypeError, match=r"topics must be a list of names, got b?'(visits)?'; write"):
        read_names(names, "topics")


CALLS = {
    "delete_topics": "topics",
    "describe_topics": "topics",
    "create_topics": "topics",
    "describe_groups": "groups",
    "delete_groups": "groups",
    "describe_transactions": "transactional_ids",
    "fence_producers": "transactional_ids",
}


@pytest.mark.parametrize("call", CALLS)
def test_admin_rejects_a_single_string(call: str) -> None:
    admin = aio.Admin(bootstrap_servers="localhost:9092")
    with pytest.raises(TypeError, match=f"{CALLS[call]} must be a list of names"):
        getattr(admin, call)("visits").send(None)


def test_consumer_rejects_a_single_string() -> None:
    consumer = aio.Consumer(bootstrap_servers="localhost:9092", group_id="g")
    with pytest.raises(TypeError, match=r"topics must be a list of names, got 'visits'; write \['v"):
        consumer.subscribe("visits")  # type: ignore[arg-type]
