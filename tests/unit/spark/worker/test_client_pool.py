"""The pool of clients: reuse by class and settings, eviction, and forks."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from odradek.model.client_errors import TimedOut
from odradek.spark.worker.client_pool import ClientPool

A, B, C = ({"bootstrap.servers": name} for name in "abc")


class Fake:
    """Client that counts how often it is closed."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self.closed_count = 0

    def close(self, timeout_s: float | None = None) -> None:
        self.closed_count += 1


class FailingToClose(Fake):
    def close(self, timeout_s: float | None = None) -> None:
        super().close(timeout_s)
        raise TimedOut("the broker is gone")


class Time:
    now = 0

    def __call__(self) -> int:
        return self.now


def test_equal_class_and_settings_share_a_client() -> None:
    pool = ClientPool(Time())
    client = pool.get(Fake, {"x": "1", "y": "2"})
    assert pool.get(Fake, {"y": "2", "x": "1"}) is client
    assert pool.get(FailingToClose, {"x": "1", "y": "2"}) is not client
    assert pool.get(Fake, {"x": "1"}) is not client


def test_pool_copies_the_settings() -> None:
    settings = dict(A)
    client = ClientPool(Time()).get(Fake, settings)
    settings["bootstrap.servers"] = "elsewhere"
    assert client.settings == A


def test_least_recently_used_client_is_closed() -> None:
    pool = ClientPool(Time(), clients_max=2)
    first, second = pool.get(Fake, A), pool.get(Fake, B)
    pool.get(Fake, A)
    pool.get(Fake, C)
    assert (first.closed_count, second.closed_count) == (0, 1)
    assert pool.get(Fake, A) is first


def test_idle_client_is_closed_but_never_the_requested_one() -> None:
    time = Time()
    pool = ClientPool(time, idle_max_ms=1000)
    idle, busy = pool.get(Fake, A), pool.get(Fake, B)
    time.now = 999
    pool.get(Fake, B)
    time.now = 1500
    assert pool.get(Fake, B) is busy
    assert (idle.closed_count, busy.closed_count) == (1, 0)
    time.now = 10_000
    assert pool.get(Fake, B) is busy


@pytest.mark.parametrize("client_class", [Fake, FailingToClose])
def test_discarded_client_is_closed_and_created_again(client_class: type[Fake]) -> None:
    pool = ClientPool(Time())
    client = pool.get(client_class, A)
    pool.discard(client)
    pool.discard(client)
    assert client.closed_count == 1
    assert pool.get(client_class, A) is not client


def test_forked_child_creates_its_own_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ClientPool(Time())
    parents = pool.get(Fake, A)
    pool._lock.acquire()  # by a thread that the child does not have
    parent_id = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent_id + 1)
    own = pool.get(Fake, A)
    assert own is not parents
    pool.discard(own)
    assert (own.closed_count, parents.closed_count) == (1, 0)
