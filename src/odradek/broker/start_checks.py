"""Checks before a start writes to disk: settings, addresses, and the owner of the log directories.

A start that fails here leaves no directory, lock file or store behind. Anything that can change between a
check and the start itself (an address, a file) is checked again on use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from odradek.cluster.metadata_version import LATEST, MetadataVersion
from odradek.config import availability, derived
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.config.listeners import ListenerEndpoint
from odradek.log.checkpoints import LOCK_FILE
from odradek.model.errors import ConfigError, StorageError
from odradek.ports.files import FileSystem
from odradek.ports.network import Network
from odradek.replication.reads.replica_selector import SELECTORS
from odradek.store import meta_properties
from odradek.store.broker_registration import BrokerIdRules, decide_broker_id
from odradek.store.embedded.ensemble import ADOPTED_SUFFIX, FILE_NAME


def check_settings(values: Settings, raw_values: Mapping[str, str]) -> None:
    """Reject settings that this broker does not support; ``raw_values`` are their raw values."""
    problems = availability.unavailable_setting_problems(raw_values)
    selector = values[settings.REPLICA_SELECTOR_CLASS]
    if selector and selector not in SELECTORS:
        known = " or ".join(SELECTORS)
        problems.append(f"{settings.REPLICA_SELECTOR_CLASS.name} must be {known}, got {selector}")
    try:
        metadata_version(values)
    except ValueError as error:
        problems.append(f"{settings.INTER_BROKER_PROTOCOL_VERSION.name}: {error}")
    if problems:
        raise ConfigError(problems)


def is_store_shared(values: Settings) -> bool:
    """Return whether the cluster's state is in ZooKeeper, for several brokers."""
    return bool(values[settings.ZOOKEEPER_CONNECT])


def metadata_version(values: Settings) -> MetadataVersion:
    """Return the version of the inter-broker protocol: without ZooKeeper always the latest."""
    if not is_store_shared(values):
        return LATEST
    return MetadataVersion.parse(values[settings.INTER_BROKER_PROTOCOL_VERSION])


def broker_id_rules(values: Settings) -> BrokerIdRules:
    """Return the settings that determine the broker id."""
    return BrokerIdRules(
        derived.broker_id(values),
        values[settings.BROKER_ID_GENERATION_ENABLE],
        values[settings.RESERVED_BROKER_MAX_ID],
    )


def store_path(log_dirs: Sequence[str]) -> str:
    """Return the path of the embedded store, in the first of ``log_dirs``."""
    return f"{log_dirs[0]}/{FILE_NAME}"


def check_identity(
    files: FileSystem, log_dirs: Sequence[str], rules: BrokerIdRules, *, is_shared: bool
) -> None:
    """Reject log directories whose ``meta.properties`` name another broker or cluster.

    With a shared store the cluster is checked later, once it is connected; an embedded store, which it would
    hide with all topics, is rejected. Unreadable directories are skipped
    here: the start takes them offline, or fails, when it opens them.
    """
    store = store_path(log_dirs)
    if is_shared and files.exists(store):
        raise StorageError(
            f"{store}: the topics and settings of this broker are in its embedded store, but "
            f"{settings.ZOOKEEPER_CONNECT.name} is set. Carry them over with `odradek cluster adopt`, or "
            f"unset {settings.ZOOKEEPER_CONNECT.name}"
        )
    properties = {}
    for log_dir in log_dirs:
        with suppress(OSError):
            properties.update(meta_properties.read_all(files, [log_dir]))
    decide_broker_id(rules, properties)
    if not is_shared and not files.exists(store):
        if properties and files.exists(store + ADOPTED_SUFFIX):
            raise StorageError(
                f"{store + ADOPTED_SUFFIX}: the cluster's state was carried over to ZooKeeper. Set "
                f"{settings.ZOOKEEPER_CONNECT.name}, or carry it back with `odradek cluster release`"
            )
        meta_properties.check_cluster_id(properties, None)


def were_used(files: FileSystem, log_dirs: Sequence[str]) -> bool:
    """Return whether a broker has used all of these directories, so that locking creates no file."""
    return all(files.exists(f"{log_dir}/{LOCK_FILE}") for log_dir in log_dirs)


async def check_addresses(network: Network, bound: Sequence[ListenerEndpoint], origin: str = "") -> None:
    """Reject addresses that cannot be bound now; ``origin`` is added to the error message."""
    for endpoint in bound:
        try:
            socket = await network.listen(endpoint.host, endpoint.port, lambda _: None)
        except OSError as error:
            raise bind_error(endpoint, error, origin) from error
        socket.close()


def bind_error(endpoint: ListenerEndpoint, error: OSError, origin: str = "") -> ConfigError:
    """Return the error for an address that cannot be bound."""
    return ConfigError([f"listeners: cannot listen on {endpoint}{origin}: {error.strerror or error}"])
