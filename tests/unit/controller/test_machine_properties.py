"""The controller's machine in random scenarios: brokers, logs, topics and controllers come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.controller_cluster import ControllerCluster

from odradek.model.ids import TopicPartition

BROKERS = (1, 2, 3, 4)
TOPICS = ("orders", "logs", "lone")

brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2))
replicas = st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple)
operations = st.one_of(
    st.tuples(st.just("create_topic"), topics, st.lists(replicas, min_size=1, max_size=3)),
    st.tuples(st.just("add_partition"), topics, replicas),
    st.tuples(st.just("delete_topic"), topics),
    st.tuples(st.just("start_broker"), brokers),
    st.tuples(st.just("fail_broker"), brokers),
    st.tuples(st.just("bounce_broker"), brokers),
    st.tuples(st.just("shut_down_broker"), brokers),
    st.tuples(st.just("fail_log"), brokers, partitions),
    st.tuples(st.just("change_isr"), partitions, st.integers(0, 7), st.booleans()),
    st.tuples(st.just("elect_controller")),
    st.tuples(st.just("answer"), brokers),
    st.tuples(st.just("answer"), brokers),
    st.tuples(st.just("settle")),
)


def run(cluster: ControllerCluster, operation: tuple) -> None:
    name, *arguments = operation
    if name == "change_isr":
        partition, members, is_known = arguments
        cluster.change_isr(partition, members, is_known=is_known)
    else:
        getattr(cluster, name)(*arguments)


@given(st.lists(replicas, min_size=1, max_size=3), st.lists(operations, max_size=25))
def test_cluster_comes_to_rest_in_order(assignments: list[tuple[int, ...]], scenario: list[tuple]) -> None:
    cluster = ControllerCluster(BROKERS)
    cluster.create_topic("orders", assignments)
    for operation in scenario:
        run(cluster, operation)
    cluster.heal()
    store, context = cluster.machine.store, cluster.machine.context
    # Deletions are complete, and every partition has a leader.
    assert context.deletions.queued == set()
    assert store.deletion_marks == set()
    assert store.topics.keys() == context.topics.keys()
    known = {TopicPartition(topic, n) for topic, a in store.topics.items() for n in a.partitions}
    assert store.states.keys() == known
    for partition, stored in store.states.items():
        assert stored.leader_and_isr.leader in BROKERS
        assert context.partitions[partition] == stored
    # Brokers know it.
    for broker_id, broker in cluster.brokers.items():
        assert broker.live == set(BROKERS)
        assert broker.metadata.keys() == known
        hosted = {p for p in known if broker_id in store.topics[p.topic].partitions[p.partition].replicas}
        assert broker.led.keys() == hosted
        for states in (broker.led, broker.metadata):
            for partition, state in states.items():
                stored_state = store.states[partition].leader_and_isr
                assert (state.leader, state.leader_epoch) == (stored_state.leader, stored_state.leader_epoch)
                assert (state.isr, state.partition_epoch) == (
                    stored_state.isr,
                    store.states[partition].version,
                )
