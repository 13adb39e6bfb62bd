"""Clients are kept per process, by kind and settings, and not too many of them nor too long."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from odradek.model.client_errors import TimedOut
from odradek.spark.worker.client_pool import ClientPool

A, B, C = ({"bootstrap.servers": name} for name in "abc")


class Fake:
    """A client that notes how often it was closed."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self.closed_count = 0

    def close(self, timeout_s: float | None = None) -> None:
        self.closed_count += 1


class Stubborn(Fake):
    def close(self, timeout_s: float | None = None) -> None:
        super().close(timeout_s)
        raise TimedOut("the broker is gone")


class Time:
    now = 0

    def __call__(self) -> int:
        return self.now


def test_equal_settings_of_one_kind_get_the_same_client() -> None:
    pool = ClientPool(Time())
    client = pool.get(Fake, {"x": "1", "y": "2"})
    assert pool.get(Fake, {"y": "2", "x": "1"}) is client
    assert pool.get(Stubborn, {"x": "1", "y": "2"}) is not client
    assert pool.get(Fake, {"x": "1"}) is not client


def test_a_change_of_the_given_mapping_changes_no_client() -> None:
    given = dict(A)
    client = ClientPool(Time()).get(Fake, given)
    given["bootstrap.servers"] = "elsewhere"
    assert client.settings == A


def test_the_client_that_was_not_used_for_longest_gives_way() -> None:
    pool = ClientPool(Time(), clients_max=2)
    first, second = pool.get(Fake, A), pool.get(Fake, B)
    pool.get(Fake, A)
    pool.get(Fake, C)
    assert (first.closed_count, second.closed_count) == (0, 1)
    assert pool.get(Fake, A) is first


def test_an_idle_client_is_closed_when_another_is_asked_for_and_the_one_asked_for_never() -> None:
    time = Time()
    pool = ClientPool(time, idle_max_ms=1000)
    idle, lively = pool.get(Fake, A), pool.get(Fake, B)
    time.now = 999
    pool.get(Fake, B)
    time.now = 1500
    assert pool.get(Fake, B) is lively
    assert (idle.closed_count, lively.closed_count) == (1, 0)
    time.now = 10_000
    assert pool.get(Fake, B) is lively


@pytest.mark.parametrize("kind", [Fake, Stubborn])
def test_a_forgotten_client_is_closed_and_made_anew(kind: type[Fake]) -> None:
    pool = ClientPool(Time())
    client = pool.get(kind, A)
    pool.forget(client)
    pool.forget(client)
    assert client.closed_count == 1
    assert pool.get(kind, A) is not client


def test_clear_closes_all() -> None:
    pool = ClientPool(Time())
    clients = [pool.get(Fake, each) for each in (A, B, C)]
    pool.clear()
    assert [client.closed_count for client in clients] == [1, 1, 1]


def test_a_forked_child_makes_its_own_and_leaves_its_parents_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ClientPool(Time())
    parents = pool.get(Fake, A)
    pool._lock.acquire()  # by a thread that the child does not have
    parent_id = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent_id + 1)
    own = pool.get(Fake, A)
    assert own is not parents
    pool.clear()
    assert (own.closed_count, parents.closed_count) == (1, 0)
