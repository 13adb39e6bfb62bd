"""Every znode that Apache Kafka brokers wrote decodes, and encodes to the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.golden.cluster.recordings import HERE, SCENARIOS, writes

from odradek.store.layout import znode_paths, znodes
from odradek.store.port import BadPayload

IBPS = sorted({ibp for ibp, _ in SCENARIOS})


class Codec(NamedTuple):
    decode: Callable[[str, bytes], Any]
    encode: Callable[[Any], bytes]


CODECS = {
    r"/brokers/ids/\d+": Codec(znodes.decode_broker, znodes.encode_broker),
    r"/brokers/topics/[^/]+": Codec(znodes.decode_topic, znodes.encode_topic),
    r"/brokers/topics/[^/]+/partitions/\d+/state": Codec(
        znodes.decode_partition_state, znodes.encode_partition_state
    ),
    r"/config/(topics|brokers)/[^/]+": Codec(znodes.decode_config, znodes.encode_config),
    r"/config/changes/config_change_\d{10}": Codec(znodes.decode_config_change, znodes.encode_config_change),
    r"/controller": Codec(znodes.decode_controller, znodes.encode_controller),
    r"/controller_epoch": Codec(znodes.decode_number, znodes.encode_number),
    r"/cluster/id": Codec(znodes.decode_cluster_id, znodes.encode_cluster_id),
    r"/latest_producer_id_block": Codec(znodes.decode_producer_id_block, znodes.encode_producer_id_block),
    r"/feature": Codec(znodes.decode_features, znodes.encode_features),
    r"/log_dir_event_notification/log_dir_event_\d{10}": Codec(
        znodes.decode_log_dir_event, znodes.encode_log_dir_event
    ),
}
EMPTY = (
    *map(re.escape, (*znode_paths.PERSISTENT, "/admin", "/brokers", "/cluster", "/config")),
    r"/admin/delete_topics/[^/]+",
    r"/brokers/topics/[^/]+/partitions(/\d+)?",
    r"/brokers/ids/\d+",  # created empty and set in one multi
)
"""Nodes without data."""


def dump(ibp: str) -> list[tuple[str, bytes | None]]:
    """Return path and data of all nodes at the end of a recording."""
    lines = (HERE / ibp / "znodes.txt").read_text(encoding="utf-8").splitlines()
    parts = [line.partition(" =") for line in lines]
    return [(place.split(" ")[0], data.encode() if sign else None) for place, sign, data in parts]


def check(path: str, data: bytes | None) -> None:
    codec = next((codec for pattern, codec in CODECS.items() if re.fullmatch(pattern, path)), None)
    if not data:
        assert any(re.fullmatch(pattern, path) for pattern in EMPTY), path
        return
    assert codec is not None, path
    assert codec.encode(codec.decode(path, data)).decode() == data.decode(), path


@pytest.mark.parametrize(("ibp", "scenario"), SCENARIOS)
def test_written_znodes_encode_to_the_same_bytes(ibp: str, scenario: str) -> None:
    for write in writes(ibp, scenario):
        if write.operation in ("create", "create-ephemeral", "set"):
            check(write.path, write.data)


@pytest.mark.parametrize("ibp", IBPS)
def test_znodes_at_the_end_encode_to_the_same_bytes(ibp: str) -> None:
    nodes = dump(ibp)
    assert {"/controller", "/cluster/id", "/feature"} <= {path for path, _ in nodes}
    for path, data in nodes:
        check(path, data)


def test_recordings_have_every_kind_of_znode() -> None:
    paths = {write.path for ibp, scenario in SCENARIOS for write in writes(ibp, scenario)}
    assert [pattern for pattern in CODECS if not any(re.fullmatch(pattern, path) for path in paths)] == []


def test_a_damaged_znode_is_found() -> None:
    with pytest.raises((AssertionError, BadPayload)):
        check("/controller", b'{"version":1,"brokerid":0,"timestamp":"1"}')
