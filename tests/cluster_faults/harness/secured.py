"""Brokers that are secured from each other and from clients, for the same faults: ``SECURED=1``.

Between brokers there is SASL_SSL, and each is the super user ``broker``. Clients stay on PLAINTEXT as
``ANONYMOUS``, which ACLs in ZooKeeper allow what the tests do, but not what brokers do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from tests.support.tls import VALIDITY, authority

from odradek.security.tls.certificates import make_server_certificate

IS_SECURED: Final = os.environ.get("SECURED") == "1"
LISTENER: Final = "BROKERS"
PASSWORD: Final = "broker-secret"
DIGEST: Final = "broker:zookeeper-secret"

_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_CLUSTER_OPERATIONS: Final = (
    "Create",
    "Alter",
    "Describe",
    "DescribeConfigs",
    "AlterConfigs",
    "IdempotentWrite",
)
_ALLOWED: Final = {
    "Topic/*": ("All",),
    "Group/*": ("All",),
    "TransactionalId/*": ("All",),
    "Cluster/kafka-cluster": _CLUSTER_OPERATIONS,
}


def secured_settings(home: Path, hosts: Iterable[str], client: str, address: str) -> dict[str, str]:
    """Return the settings of a broker with a listener for clients and one for brokers."""
    store, trusted = _write_certificates(home, hosts)
    login = f'{_MODULE} required username="broker" password="{PASSWORD}" user_broker="{PASSWORD}";'
    return {
        "listeners": f"PLAINTEXT://{client},{LISTENER}://{address}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_SSL",
        "inter.broker.listener.name": LISTENER,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": login,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker",
        "zookeeper.set.acl": "true",
        "odradek.zookeeper.digest.credentials": DIGEST,
    }


def _write_certificates(home: Path, hosts: Iterable[str]) -> tuple[Path, Path]:
    store, trusted = home / "broker.pem", home / "authority.pem"
    if not store.exists():
        names = list(dict.fromkeys(hosts))
        store.write_text(make_server_certificate(authority(), names, VALIDITY).key_store_pem())
        trusted.write_text(authority().certificate_pem)
    return store, trusted


def allow_clients(connect: str) -> None:
    """Write the ACLs of clients before the first broker starts."""
    client = KazooClient(connect)
    client.start()
    try:
        for path, operations in _ALLOWED.items():
            acls = [
                {
                    "principal": "User:ANONYMOUS",
                    "permissionType": "Allow",
                    "operation": operation,
                    "host": "*",
                }
                for operation in operations
            ]
            client.create(
                f"/kafka-acl/{path}", json.dumps({"version": 1, "acls": acls}).encode(), makepath=True
            )
    finally:
        client.stop()
        client.close()
