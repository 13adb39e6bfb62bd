"""Settings of Kafka's AclAuthorizer. They are not in Kafka's own table: a broker hands them to the class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.config import broker
from odradek.config.broker.unavailable_reasons import ONE_STORE
from odradek.config.definition import by_name
from odradek.config.types import LOW, boolean, string


def _check_super_users(text: str) -> str | None:
    names = [name.strip() for name in text.split(";") if name.strip()]
    if all(name.partition(":")[0] and ":" in name for name in names):
        return None
    return "must be principals separated by semicolons, such as User:admin;User:broker"


SUPER_USERS = string(
    "super.users",
    "",
    LOW,
    "Principals that are allowed all operations, separated by semicolons. Brokers of the cluster must be "
    "among them, or have ACLs for ClusterAction.",
    check=_check_super_users,
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = boolean(
    "allow.everyone.if.no.acl.found",
    False,
    LOW,
    "Whether everybody may do anything to a resource that no ACL applies to.",
)

AUTHORIZER: Final = (
    SUPER_USERS,
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    string("authorizer.zookeeper.url", "", LOW, "ZooKeeper of the ACLs.", unavailable=ONE_STORE),
    boolean("authorizer.zookeeper.ssl.client.enable", False, LOW, "TLS to it.", unavailable=ONE_STORE),
)
AUTHORIZER_BY_NAME: Final = by_name(AUTHORIZER)


def without_effect(raw_values: Mapping[str, str]) -> list[str]:
    """Return a line for each setting that only applies with an authorizer, if there is none."""
    if raw_values.get(broker.AUTHORIZER_CLASS_NAME.name, "").strip():
        return []
    names = [setting.name for setting in AUTHORIZER if setting.name in raw_values]
    return [f"{name}: has no effect without {broker.AUTHORIZER_CLASS_NAME.name}" for name in names]
