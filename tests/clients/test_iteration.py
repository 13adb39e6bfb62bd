"""What a loop over a consumer was given counts as read, and nothing else does."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.clients.client_apis import Clients

from odradek import NewTopic, TopicPartition


def reader(clients: Clients, bootstrap: str, topic: str, **options: Any) -> Any:
    """A consumer of a topic with six records that nobody has read."""
    producer = clients.producer(bootstrap_servers=bootstrap)
    producer.send_many(topic, [b"%d" % number for number in range(6)], partition=0).result(30)
    consumer = clients.consumer(
        bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", **options
    )
    consumer.subscribe([topic])
    return consumer


def committed(clients: Clients, bootstrap: str, topic: str) -> int:
    offsets = clients.admin(bootstrap_servers=bootstrap).list_group_offsets(topic)
    return int(offsets[TopicPartition(topic, 0)].offset)


def test_a_loop_that_is_left_early_commits_what_it_was_given(
    clients: Clients, bootstrap: str, topic: str
) -> None:
    consumer = reader(clients, bootstrap, topic)
    for record in consumer:
        if record.offset == 2:
            break
    consumer.close()
    assert committed(clients, bootstrap, topic) == 3


def test_a_commit_inside_a_loop_is_of_what_the_loop_was_given(
    clients: Clients, bootstrap: str, topic: str
) -> None:
    consumer = reader(clients, bootstrap, topic, enable_auto_commit=False)
    places = []
    for record in consumer:
        consumer.commit()
        places.append(committed(clients, bootstrap, topic))
        if record.offset == 2:
            break
    assert places == [1, 2, 3]


def test_a_loop_goes_on_where_another_was_left(clients: Clients, bootstrap: str, topic: str) -> None:
    consumer = reader(clients, bootstrap, topic)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 3:
            break
    seen += [record.offset for record in consumer.poll(10)]
    assert seen == [0, 1, 2, 3, 4, 5]


PLACES = 3
RECORDS = 2000


def filled(clients: Clients, bootstrap: str, topic: str) -> list[TopicPartition]:
    clients.admin(bootstrap_servers=bootstrap).create_topics([NewTopic(topic, PLACES)])
    producer = clients.producer(bootstrap_servers=bootstrap)
    for partition in range(PLACES):
        values = [b"%d" % number for number in range(RECORDS)]
        producer.send_many(topic, values, partition=partition).result(30)
    return [TopicPartition(topic, partition) for partition in range(PLACES)]


@pytest.mark.parametrize("seed", range(3))
def test_records_follow_positions_whatever_comes_between_loops(
    clients: Clients, bootstrap: str, topic: str, seed: int
) -> None:
    chance = random.Random(seed)
    wanted = filled(clients, bootstrap, topic)
    consumer = clients.consumer(
        bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    consumer.assign(wanted)
    places = dict.fromkeys(wanted, 0)

    def given(record: Any) -> None:
        place = TopicPartition(topic, record.partition)
        assert (record.offset, record.value) == (places[place], b"%d" % places[place])
        places[place] += 1

    for _ in range(60):
        count = min(chance.choice((1, 5, 100)), sum(RECORDS - offset for offset in places.values()))
        for record in consumer if count else ():
            given(record)
            count -= 1
            if not count:
                break
        place = chance.choice(wanted)
        match chance.randrange(5):
            case 0:
                for record in consumer.poll(0.1, chance.choice((1, 50))):
                    given(record)
            case 1:
                places[place] = chance.randrange(RECORDS)
                consumer.seek(place, places[place])
            case 2:
                consumer.commit()
            case 3:
                consumer.pause(place)
                consumer.resume(place)
            case _:
                assert consumer.position(place) == places[place]
    consumer.commit()
    found = consumer.committed(*wanted)
    assert {place: None if each is None else each.offset for place, each in found.items()} == places
