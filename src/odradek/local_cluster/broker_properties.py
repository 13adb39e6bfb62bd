"""The ``server.properties`` of a broker, and the properties of ZooKeeper that depend on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.config import broker, profiles, sources
from odradek.local_cluster.cluster_spec import HOST, ClusterSpec, broker_name
from odradek.local_cluster.errors import ClusterError
from odradek.model.errors import ConfigError

_TICKS_PER_SESSION: Final = 6
"""ZooKeeper allows 2 to 20, and expires sessions up to one tick late."""
_TICK_MIN_MS: Final = 100
_TICK_MAX_MS: Final = 3000


def broker_properties(spec: ClusterSpec, number: int, log_dir: str) -> dict[str, str]:
    """Return the settings of a broker: the profile, those of ``--set``, and its own."""
    properties = profiles.values(profiles.local_cluster(spec.brokers))
    sources.override(properties, spec.settings)
    rack = spec.rack_of(number)
    return {
        "broker.id": str(number),
        **({} if rack is None else {"broker.rack": rack}),
        "listeners": f"PLAINTEXT://{HOST}:{spec.port_of(broker_name(number))}",
        "log.dirs": log_dir,
        "zookeeper.connect": f"{HOST}:{spec.zookeeper_port}",
        **properties,
    }


def format_properties(properties: Mapping[str, str]) -> str:
    """Return the text of a properties file."""
    return "".join(f"{_escape(name)}={_escape(value)}\n" for name, value in properties.items())


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f"\\{escaped}" if escaped[:1] in (" ", "\f") else escaped


def check_settings(spec: ClusterSpec) -> list[str]:
    """Return warnings about the settings of ``--set``; raise ClusterError if a broker would not start."""
    text = format_properties(broker_properties(spec, 1, "data"))
    try:
        return list(sources.load(text, {}, ()).warnings)
    except ConfigError as error:
        raise ClusterError("; ".join(error.problems)) from error


def differ_for_running(previous: ClusterSpec, spec: ClusterSpec) -> bool:
    """Return whether brokers that run have to be restarted to get their settings of a changed cluster."""
    return broker_properties(previous, 1, "data") != broker_properties(spec, 1, "data")


def tick_ms(spec: ClusterSpec) -> int:
    """Return ZooKeeper's ``tickTime`` for the session timeout of the brokers."""
    session_ms: int = _setting(spec, broker.ZOOKEEPER_SESSION_TIMEOUT_MS.name)
    return min(_TICK_MAX_MS, max(_TICK_MIN_MS, session_ms // _TICKS_PER_SESSION))


def min_in_sync(spec: ClusterSpec) -> int:
    """Return the brokers' ``min.insync.replicas``."""
    return _setting(spec, broker.MIN_INSYNC_REPLICAS.name)


def _setting(spec: ClusterSpec, name: str) -> int:
    return int(broker_properties(spec, 1, "data")[name])
