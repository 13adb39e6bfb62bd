"""What a loop over a consumer was given counts as read, and nothing else does."""

from __future__ import annotations

from typing import Any

from tests.clients.worlds import World

from odradek import TopicPartition


def reader(world: World, bootstrap: str, topic: str, **options: Any) -> Any:
    """A consumer of a topic with six records that nobody has read."""
    producer = world.producer(bootstrap_servers=bootstrap)
    producer.send_many(topic, [b"%d" % number for number in range(6)], partition=0).result(30)
    consumer = world.consumer(
        bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", **options
    )
    consumer.subscribe([topic])
    return consumer


def committed(world: World, bootstrap: str, topic: str) -> int:
    offsets = world.admin(bootstrap_servers=bootstrap).list_group_offsets(topic)
    return int(offsets[TopicPartition(topic, 0)].offset)


def test_a_loop_that_is_left_early_commits_what_it_was_given(
    world: World, bootstrap: str, topic: str
) -> None:
    consumer = reader(world, bootstrap, topic)
    for record in consumer:
        if record.offset == 2:
            break
    consumer.close()
    assert committed(world, bootstrap, topic) == 3


def test_a_commit_inside_a_loop_is_of_what_the_loop_was_given(
    world: World, bootstrap: str, topic: str
) -> None:
    consumer = reader(world, bootstrap, topic, enable_auto_commit=False)
    places = []
    for record in consumer:
        consumer.commit()
        places.append(committed(world, bootstrap, topic))
        if record.offset == 2:
            break
    assert places == [1, 2, 3]


def test_a_loop_goes_on_where_another_was_left(world: World, bootstrap: str, topic: str) -> None:
    consumer = reader(world, bootstrap, topic)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 3:
            break
    seen += [record.offset for record in consumer.poll(10)]
    assert seen == [0, 1, 2, 3, 4, 5]
