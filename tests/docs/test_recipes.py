"""The recipes of docs/clients.md keep what they promise when their program is killed around its commit.

A program is taken from the page as it stands, killed right before or right after its second commit, and then
started again. It reads two records at a time, under a name by which the group knows it again at once.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.broker import Broker
from tests.support.fixtures import new_topic_name

import odradek

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
SECONDS_MAX = 60
ORDERS = ["one", "two", "three", "four", "five", "six"]

PRELUDE = """
import os, signal
import odradek

def killed(method, calls=[0]):
    def call(*given):
        calls[0] += 1
        dies = calls[0] == {commit}
        if dies and {before}:
            os.kill(os.getpid(), signal.SIGKILL)
        method(*given)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
    return call

class Reader(odradek.Consumer):
    def __init__(self, **options):
        super().__init__(**options, max_poll_records=2, group_instance_id="reader")

odradek.Consumer = Reader
odradek.Consumer.commit = killed(odradek.Consumer.commit)
odradek.Producer.commit_transaction = killed(odradek.Producer.commit_transaction)
"""


class Recipe(NamedTuple):
    """A program of the page, with names that no other test uses."""

    source: str
    result: str

    def run(self, *, commit: int = 0, before: bool = False) -> list[str]:
        """Return the output until the end, or until a kill around the given commit (counted from 1)."""
        source = PRELUDE.format(commit=commit, before=before) + self.source
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, timeout=SECONDS_MAX, text=True, check=False
        )
        assert done.returncode == (-signal.SIGKILL if commit else 0), done.stderr
        return done.stdout.split()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker without an initial rebalance delay."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    broker = Broker(tmp_path_factory.mktemp("recipes"), settings).start()
    yield broker.bootstrap
    broker.stop()


def recipe(title: str, address: str) -> Recipe:
    """A recipe of the page, and a topic full of orders for it."""
    match = re.search(rf"^### {title}\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None
    orders = new_topic_name(title.replace(" ", "-").lower())
    changes = {
        "127.0.0.1:9092": address,
        '"orders"': f'"{orders}"',
        "shouted": f"{orders}-shouted",
        "shouter": f"{orders}-shouter",
        'group_id="': f'group_id="{orders}-',
        "timeout_s=10": "timeout_s=4",
    }
    source = match[1]
    for old, new in changes.items():
        source = source.replace(old, new)
    with odradek.Producer(bootstrap_servers=address) as producer:
        producer.send_many(orders, [order.encode() for order in ORDERS]).result()
    return Recipe(source, f"{orders}-shouted")


def committed_values(address: str, topic: str) -> list[str]:
    with odradek.Consumer(bootstrap_servers=address, isolation_level="read_committed") as consumer:
        place = odradek.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([place])[place]
        values: list[str] = []
        while consumer.position(place) < end:
            values += [(record.value or b"").decode() for record in consumer.poll(1.0)]
        return values


def test_at_most_once_does_nothing_twice(address: str) -> None:
    program = recipe("At most once", address)
    assert program.run(commit=2, before=True) + program.run() == ORDERS


def test_at_most_once_skips_what_was_committed_and_not_done(address: str) -> None:
    program = recipe("At most once", address)
    assert program.run(commit=2) + program.run() == ["one", "two", "five", "six"]


def test_at_least_once_does_again_what_was_not_committed(address: str) -> None:
    program = recipe("At least once", address)
    first, then = program.run(commit=2, before=True), program.run()
    assert (first, then) == (ORDERS[:4], ORDERS[2:])


def test_at_least_once_skips_nothing(address: str) -> None:
    program = recipe("At least once", address)
    assert program.run(commit=2) + program.run() == ORDERS


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_exactly_once_writes_everything_once(address: str, before: bool) -> None:
    program = recipe("Exactly once", address)
    program.run(commit=2, before=before)
    program.run()
    assert committed_values(address, program.result) == [order.upper() for order in ORDERS]


def test_exactly_once_survives_a_kill_at_every_commit(address: str) -> None:
    program = recipe("Exactly once", address)
    for commit in (1, 2):
        program.run(commit=commit, before=True)
    program.run(commit=1)
    program.run()
    assert committed_values(address, program.result) == [order.upper() for order in ORDERS]
