"""Members of a local cluster, their addresses and racks, and the stored form."""

from __future__ import annotations

import pytest

from odradek.local_cluster.cluster_spec import ClusterSpec, cluster_command, find_member, label
from odradek.local_cluster.cluster_state import ClusterState, decode, encode
from odradek.local_cluster.errors import ClusterError
from odradek.ports.processes import ProcessIdentity

SPEC = ClusterSpec(3, 9092, 21810, ("a", "b"), {"log.retention.hours": "24"})


def test_brokers_have_consecutive_ports_and_racks_in_turn() -> None:
    assert SPEC.members == ("zookeeper", "broker-1", "broker-2", "broker-3")
    assert SPEC.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert [SPEC.port_of(member) for member in SPEC.members] == [21810, 9092, 9093, 9094]
    assert [SPEC.rack_of(number) for number in SPEC.numbers] == ["a", "b", "a"]
    assert ClusterSpec(1, 9092, 1).rack_of(1) is None


@pytest.mark.parametrize(
    ("text", "member"),
    [("1", "broker-1"), ("3", "broker-3"), ("broker-2", "broker-2"), ("ZooKeeper", "zookeeper")],
)
def test_member_by_number_or_name(text: str, member: str) -> None:
    assert find_member(SPEC, text) == member


@pytest.mark.parametrize("text", ["0", "4", "-1", "two", "", "²"])
def test_unknown_broker(text: str) -> None:
    with pytest.raises(ClusterError, match=f"no broker '{text}': the cluster has brokers 1 to 3"):
        find_member(SPEC, text)


def test_labels_and_commands_of_messages() -> None:
    assert [label(member) for member in SPEC.members[:2]] == ["ZooKeeper", "broker 1"]
    assert cluster_command("up", "odradek-cluster") == "`odradek cluster up`"
    assert cluster_command("stop 2", "elsewhere") == "`odradek cluster stop 2 -d elsewhere`"


def test_stored_cluster_is_read_back() -> None:
    state = ClusterState(SPEC, {"zookeeper": ProcessIdentity(7, "boot/1")})
    state = state.with_process("broker-1", ProcessIdentity(8, "boot/2"))
    assert decode(encode(state)) == state


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("[]", "wrong field"),
        ("{}", "version"),
        ('{"version": 2}', "version must be 1, got 2"),
        ('{"version": 1, "brokers": "x"}', "invalid literal"),
        (encode(ClusterState(SPEC, {})).replace('"racks"', '"rocks"'), "racks"),
    ],
)
def test_damaged_file_is_a_value_error(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode(text)
