"""Reasons for which settings are refused: what they promise is not available, and what to do instead."""

from __future__ import annotations

from typing import Final

NO_ACCESS_CONTROL: Final = (
    "access control is not available yet. Leave it out: every client that reaches the broker may do "
    "everything"
)
NO_SSL: Final = "SSL is not available yet. Leave it out: no client is asked for a certificate"
NO_SASL: Final = "SASL is not available yet. Leave it out: no client is asked who it is"
NO_CLASSES: Final = "classes are not loaded from configuration. Leave it out: it would protect nothing"
NO_TOKENS: Final = "delegation tokens are not available. Leave it out"
NO_ENCRYPTION: Final = "passwords are not kept in the cluster's state, nor encrypted. Leave it out"
NO_QUOTAS: Final = "client quotas are not available yet. Leave it out: no client is slowed down"
NO_RATE: Final = (
    "the rate of new connections is not limited yet. Leave it out; max.connections and "
    "max.connections.per.ip limit how many there are"
)
NO_ZOOKEEPER: Final = (
    "clusters on ZooKeeper are not available yet. Leave it out: the broker then keeps the cluster's state in "
    "the first of log.dirs"
)
