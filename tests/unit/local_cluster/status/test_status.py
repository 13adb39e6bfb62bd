"""Status of a local cluster: readiness, lag, problems, and the lines that show them."""

from __future__ import annotations

import json

import pytest

from odradek.client.admin.log_dirs import Replica
from odradek.client.values import PartitionInfo
from odradek.local_cluster.cluster_spec import ClusterSpec
from odradek.local_cluster.status.cluster_view import (
    ClusterView,
    follower_lag,
    out_of_sync_reason,
    unready_reason,
)
from odradek.local_cluster.status.live_status import styled_lines
from odradek.local_cluster.status.status_report import ClusterStatus, MemberProcess, as_json, make_status
from odradek.local_cluster.status.status_text import PROBLEMS_SHOWN, status_lines, summary_line
from odradek.ports.processes import ProcessState

SPEC = ClusterSpec(3, 9092, 21810, ("a", "b", "c"))
A0 = PartitionInfo("a", 0, 1, (1, 2, 3), (1, 2, 3))
A1 = PartitionInfo("a", 1, 2, (2, 3, 1), (2, 3, 1))
LOG_ENDS = {
    Replica("a", 0, 1): 100,
    Replica("a", 0, 2): 97,
    Replica("a", 0, 3): 101,
    Replica("a", 1, 2): 5,
    Replica("a", 1, 1): 4,
}
VIEW = ClusterView("id", 1, frozenset({1, 2, 3}), (A0, A1), frozenset(), LOG_ENDS)
RUNNING = MemberProcess(ProcessState.RUNNING, 4711, 50_000_000)
GONE = MemberProcess(ProcessState.GONE)
PROCESSES = dict.fromkeys(SPEC.members, RUNNING)


def status(view: ClusterView | None = VIEW, **processes: MemberProcess) -> ClusterStatus:
    changed = {name.replace("_", "-"): process for name, process in processes.items()}
    return make_status("c", SPEC, PROCESSES | changed, view, 2)


def test_lag_is_the_difference_to_the_leaders_log_end() -> None:
    assert follower_lag(VIEW, A0, 2) == 3
    assert follower_lag(VIEW, A0, 3) == 0  # read later than the leader's
    assert follower_lag(VIEW, A1, 3) is None
    assert follower_lag(VIEW, A1._replace(leader=-1), 1) is None


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (VIEW, None),
        (None, "no broker responds"),
        (VIEW._replace(registered=frozenset({2})), "not registered: broker 1, 3"),
        (VIEW._replace(controller=None), "no controller"),
        (VIEW._replace(partitions=(A0, A1._replace(leader=-1))), "1 partitions without a leader, first a-1"),
        (VIEW._replace(partitions=(A0._replace(in_sync=(1, 2)), A1)), None),
        (
            VIEW._replace(partitions=(A0._replace(in_sync=(1,)), A1)),
            "1 partitions below min.insync.replicas=2, first a-0",
        ),
        (VIEW._replace(partitions=(PartitionInfo("b", 0, 1, (1,), (1,)),)), None),
    ],
)
def test_cluster_is_ready_when_every_partition_accepts_acks_all(
    view: ClusterView | None, reason: str | None
) -> None:
    assert unready_reason(SPEC, view, 2) == reason


def test_cluster_is_in_sync_when_no_replica_is_missing() -> None:
    assert out_of_sync_reason(SPEC, VIEW, 2) is None
    assert out_of_sync_reason(SPEC, None, 2) == "no broker responds"
    behind = VIEW._replace(partitions=(A0, A1._replace(in_sync=(2, 1))))
    assert out_of_sync_reason(SPEC, behind, 2) == "1 partitions under-replicated, first a-1"
    assert out_of_sync_reason(SPEC, VIEW._replace(controller=None), 2) == "no controller"


def test_brokers_with_roles_and_lag() -> None:
    first, second, third = status().brokers
    assert (first.state, first.is_controller, first.leaders, first.replicas) == ("running", True, 1, 2)
    assert (first.in_sync, first.lag_records, first.memory_bytes) == (2, 1, 50_000_000)
    assert (second.is_controller, second.lag_records, second.rack) == (False, 3, "b")
    assert third.lag_records == 0


@pytest.mark.parametrize(
    ("process", "registered", "state"),
    [
        (RUNNING, True, "running"),
        (RUNNING, False, "unregistered"),
        (MemberProcess(ProcessState.PAUSED, 1, 1), True, "paused"),
        (MemberProcess(ProcessState.PAUSED, 1, 1), False, "paused"),
        (GONE, True, "stopped"),
        (GONE, False, "stopped"),
    ],
)
def test_state_of_a_broker(process: MemberProcess, registered: bool, state: str) -> None:
    view = VIEW._replace(registered=frozenset({1, 2, 3} if registered else {1, 3}))
    assert status(view, broker_2=process).brokers[1].state == state


def test_partitions_that_need_attention() -> None:
    partitions = (
        A0._replace(in_sync=(1,)),
        A1._replace(in_sync=(2, 1)),
        PartitionInfo("b", 0, -1, (3,), (3,)),
        PartitionInfo("__consumer_offsets", 0, 1, (1,), (1,)),
    )
    view = VIEW._replace(partitions=partitions, internal_topics=frozenset({"__consumer_offsets"}))
    report = status(view)
    assert [(row.topic, row.partition, row.leader, row.lag_records) for row in report.problems] == [
        ("a", 0, 1, 3),
        ("a", 1, 2, 1),
        ("b", 0, None, None),
    ]
    assert (report.topics, report.internal_topics, report.partitions) == (2, 1, 4)
    assert (report.offline_count, report.below_min_isr_count) == (1, 1)
    assert as_json(report)["under_replicated_partitions"] == 3
    assert json.loads(json.dumps(as_json(report))) == as_json(report)


HEALTHY = """\
cluster     id in c
bootstrap   127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094
zookeeper   127.0.0.1:21810, running, pid 4711, 50.0 MB
controller  broker 1

BROKER  ADDRESS         RACK   PID  STATE    LEADERS  REPLICAS  IN SYNC  LAG   MEMORY
1 *     127.0.0.1:9092  a     4711  running        1         2        2    1  50.0 MB
2       127.0.0.1:9093  b     4711  running        1         2        2    3  50.0 MB
3       127.0.0.1:9094  c     4711  running        0         2        2    0  50.0 MB

1 topic, 2 partitions, all replicas in sync"""


def test_lines_of_a_healthy_cluster() -> None:
    assert "\n".join(status_lines(status())) == HEALTHY


def test_lines_of_a_cluster_that_lost_a_broker() -> None:
    partitions = (
        A0._replace(in_sync=(1, 2)),
        A1._replace(leader=3, in_sync=(3,)),
        PartitionInfo("b", 0, -1, (2,), (2,)),
    )
    view = VIEW._replace(partitions=partitions, registered=frozenset({1, 3}), log_ends={})
    lines = status_lines(status(view, broker_2=GONE))
    assert lines[7] == "2       127.0.0.1:9093  b        -  stopped        0         3        2    -        -"
    assert lines[10:] == [
        "2 topics, 3 partitions: 3 under-replicated, 1 below min ISR, 1 offline",
        "",
        "PARTITION  LEADER  REPLICAS  ISR  LAG",
        "a-0        1       1,2,3     1,2    -",
        "a-1        3       2,3,1     3      -  refuses acks=all",
        "b-0        -       2         2      -  offline",
    ]


def test_dead_broker_that_is_registered_is_not_called_in_sync() -> None:
    assert status_lines(status(broker_2=GONE))[-2:] == [
        "1 topic, 2 partitions",
        "broker 2 is stopped, but registered until its ZooKeeper session expires",
    ]


def test_lines_of_a_stopped_cluster() -> None:
    lines = status_lines(status(None, zookeeper=GONE, broker_1=GONE, broker_2=GONE, broker_3=GONE))
    assert lines[2:4] == ["zookeeper   127.0.0.1:21810, stopped", "controller  unknown"]
    assert lines[-1] == "all brokers are stopped; start them with `odradek cluster up -d c`"
    assert status_lines(status(None))[-1] == "no broker responds; see `odradek cluster logs -d c`"


def test_many_problems_are_cut() -> None:
    partitions = tuple(PartitionInfo("a", number, 1, (1, 2), (1,)) for number in range(25))
    lines = status_lines(status(VIEW._replace(partitions=partitions)))
    assert lines[-1] == "... and 15 more; see `odradek cluster status --json -d c`"
    assert len([line for line in lines if line.startswith("a-")]) == PROBLEMS_SHOWN


def test_summary_in_one_line() -> None:
    assert summary_line(status()) == (
        "3 of 3 brokers running, controller broker 1, leaders 1/1/0, 0 under-replicated, 0 offline"
    )
    paused = MemberProcess(ProcessState.PAUSED, 1, 1)
    assert summary_line(status(None, zookeeper=GONE, broker_2=paused)) == (
        "2 of 3 brokers running, no broker responds, ZooKeeper stopped, broker 2 paused"
    )


def test_lag_alone_is_no_change_of_the_summary() -> None:
    assert summary_line(status(VIEW._replace(log_ends={}))) == summary_line(status())


def test_attention_is_drawn_to_what_is_wrong_only() -> None:
    def red(report: ClusterStatus) -> list[str]:
        text = styled_lines(status_lines(report))
        return [text.plain[span.start : span.end] for span in text.spans if span.style == "red"]

    assert red(status()) == []
    broken = VIEW._replace(partitions=(A0._replace(leader=-1, in_sync=()), A1), controller=None)
    broken = broken._replace(registered=frozenset({1, 3}))
    assert red(status(broken, broker_2=GONE)) == [
        "controller  none",
        "stopped",
        "1 under-replicated",
        "1 below min ISR",
        "1 offline",
        " offline",
    ]


def test_colours_do_not_change_the_text() -> None:
    lines = status_lines(status(broker_2=GONE))
    assert styled_lines(lines).plain == "\n".join(lines) + "\n"
