"""Checks made before a start touches a disk: settings, addresses, and whom the data belongs to.

A start that is refused by one of them leaves no directory, no lock file and no store behind. What can change
between such a check and the start itself (an address, a file) is checked again when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from odradek.config import availability, derived
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.config.listeners import ListenerEndpoint
from odradek.log.checkpoints import LOCK_FILE
from odradek.model.errors import ConfigError
from odradek.ports.files import FileSystem
from odradek.ports.network import Network
from odradek.store import meta_properties
from odradek.store.broker_registration import BrokerIdRules, decide_broker_id
from odradek.store.embedded.ensemble import FILE_NAME


def check_settings(values: Settings, given: Mapping[str, str]) -> None:
    """Refuse settings that this broker cannot serve; ``given`` are the texts they were read from."""
    unavailable = availability.unavailable_protocol_problems(
        values
    ) + availability.unavailable_setting_problems(given)
    if unavailable:
        raise ConfigError(unavailable)


def broker_id_rules(values: Settings) -> BrokerIdRules:
    """Return the settings that decide a broker's id."""
    return BrokerIdRules(
        derived.broker_id(values),
        values[settings.BROKER_ID_GENERATION_ENABLE],
        values[settings.RESERVED_BROKER_MAX_ID],
    )


def store_path(log_dirs: Sequence[str]) -> str:
    """Return the path of the embedded store, which is in the first of ``log_dirs``."""
    return f"{log_dirs[0]}/{FILE_NAME}"


def check_identity(files: FileSystem, log_dirs: Sequence[str], rules: BrokerIdRules) -> None:
    """Refuse directories of another broker or cluster, as far as their ``meta.properties`` tell.

    A directory that cannot be read is passed over: the start leaves it out, or refuses it, when it opens it.
    """
    found = {}
    for log_dir in log_dirs:
        with suppress(OSError):
            found.update(meta_properties.read_all(files, [log_dir]))
    decide_broker_id(rules, found)
    if not files.exists(store_path(log_dirs)):
        meta_properties.check_cluster_id(found, None)


def are_known(files: FileSystem, log_dirs: Sequence[str]) -> bool:
    """Return whether a broker has used all of these directories: locking them makes no file then."""
    return all(files.exists(f"{log_dir}/{LOCK_FILE}") for log_dir in log_dirs)


async def check_addresses(network: Network, bound: Sequence[ListenerEndpoint], origin: str = "") -> None:
    """Refuse addresses that cannot be listened on now; ``origin`` tells where they come from, if anywhere."""
    for endpoint in bound:
        try:
            listening = await network.listen(endpoint.host, endpoint.port, lambda _: None)
        except OSError as refused:
            raise cannot_listen(endpoint, refused, origin) from refused
        listening.close()


def cannot_listen(endpoint: ListenerEndpoint, refused: OSError, origin: str = "") -> ConfigError:
    """Return the error that says why an address cannot be listened on."""
    return ConfigError([f"listeners: cannot listen on {endpoint}{origin}: {refused.strerror or refused}"])
