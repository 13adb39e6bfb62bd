"""Cipher suites by their names of IANA, which Kafka uses, and of OpenSSL.

Suites without encryption or authentication are not in the table. Python cannot choose among the suites of
TLS 1.3: a list has all three of them, or none, which disables that version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TLS_1_3: Final = "TLSv1.3"
TLS_1_3_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")

_OPENSSL_NAMES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": "DHE-RSA-AES256-SHA",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA": "DHE-RSA-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
TLS_1_2_SUITES: Final = frozenset(_OPENSSL_NAMES.values())


def openssl_name(suite: str) -> str | None:
    """Return OpenSSL's name of a suite of TLS 1.2 or 1.3; None for unknown ones."""
    name = _OPENSSL_NAMES.get(suite, suite)
    return name if name in TLS_1_2_SUITES or name in TLS_1_3_SUITES else None


def cipher_suite_problems(suites: Sequence[str], protocols: Sequence[str]) -> list[str]:
    """Return one line for each thing wrong with a list of suites; an empty list enables the defaults."""
    if not suites:
        return []
    unknown = [suite for suite in suites if openssl_name(suite) is None]
    if unknown:
        return [
            "must be suites of TLS 1.2 or 1.3 with encryption and authentication, such as "
            f"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, got {', '.join(unknown)}"
        ]
    missing = [suite for suite in TLS_1_3_SUITES if suite not in suites]
    if TLS_1_3 in protocols and 0 < len(missing) < len(TLS_1_3_SUITES):
        return [
            "must have all suites of TLS 1.3 or none, because Python cannot choose among them "
            f"({', '.join(missing)} missing), got {', '.join(suites)}"
        ]
    if not enabled_protocols(suites, protocols):
        return [f"must have a suite of {', '.join(protocols)}, got {', '.join(suites)}"]
    return []


def enabled_protocols(suites: Sequence[str], protocols: Sequence[str]) -> list[str]:
    """Return the protocols that have a suite in the list."""
    if not suites:
        return list(protocols)
    names = {openssl_name(suite) for suite in suites}
    return [
        protocol
        for protocol in protocols
        if not names.isdisjoint(TLS_1_3_SUITES if protocol == TLS_1_3 else TLS_1_2_SUITES)
    ]


def tls_1_2_names(suites: Sequence[str]) -> list[str]:
    """Return OpenSSL's names of the suites of TLS 1.2 in a list, in its order."""
    names = (openssl_name(suite) for suite in suites)
    return [name for name in names if name in TLS_1_2_SUITES]
