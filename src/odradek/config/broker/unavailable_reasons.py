"""Reasons why settings are not available, and advice."""

from __future__ import annotations

from typing import Final

ONE_STORE: Final = "ACLs are kept where the other state of the cluster is. Remove it"
NO_SSL: Final = "SSL is not available yet. Remove it: client certificates are not verified"
NO_SASL: Final = "SASL is not available yet. Remove it: clients are not authenticated"
NO_CLASSES: Final = "classes are not loaded from configuration. Remove it: it would have no effect"
NO_TOKENS: Final = "delegation tokens are not available. Remove it"
NO_ENCRYPTION: Final = "passwords are neither stored in the cluster's state nor encrypted. Remove it"
NO_REVOCATION: Final = "certificates are not checked for revocation. Remove it"
NO_CIPHER_SUITES: Final = "the TLS library chooses the cipher suites. Remove it"
