"""One text in place of several names is refused: it would be taken for its letters."""

from __future__ import annotations

import pytest

from odradek import aio
from odradek.client.names import read_names


@pytest.mark.parametrize("given", [["a", "b"], ("a", "b"), {"a": 1, "b": 2}, (name for name in "ab")])
def test_several_names_are_a_list(given) -> None:
    assert read_names(given, "topics") == ["a", "b"]


@pytest.mark.parametrize("given", ["visits", b"visits", ""])
def test_one_text_is_refused(given) -> None:
    with pytest.raises(TypeError, match=r"topics must be several names, as a list, got b?'(visits)?'; write"):
        read_names(given, "topics")


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
def test_an_admin_client_refuses_one_text(call: str) -> None:
    admin = aio.Admin(bootstrap_servers="localhost:9092")
    with pytest.raises(TypeError, match=f"{CALLS[call]} must be several names"):
        getattr(admin, call)("visits").send(None)


def test_a_consumer_refuses_one_text() -> None:
    consumer = aio.Consumer(bootstrap_servers="localhost:9092", group_id="g")
    with pytest.raises(TypeError, match=r"topics must be several names, as a list, got 'visits'; write \['v"):
        consumer.subscribe("visits")
