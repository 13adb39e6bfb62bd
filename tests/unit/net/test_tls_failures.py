"""Failures of TLS seen by a client's connection pool: which are final, and which may pass."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.tls import (
    EXPIRED,
    HOSTS,
    VALIDITY,
    authority,
    client_certificate,
    client_options,
    foreign_authority,
    server_options,
    tls_network,
    trust_store,
)

from odradek.model.client_errors import AuthenticationFailed, ClientError, ConnectionFailed
from odradek.net.connection_pool import ConnectionPool
from odradek.net.connection_state import ConnectionSettings
from odradek.ports.network import Connection, Network, Receiver
from odradek.security.tls.certificates import make_client_certificate, make_server_certificate
from odradek.security.tls.tls_options import TlsOptions
from odradek.testing.contracts.network_contract import Collector
from odradek.testing.entropy import SeededEntropy

HOST = "localhost"
REQUIRED: dict[str, Any] = {"client_auth": "required"}


async def failure_of(harness: Any, network: Network, port: int) -> ClientError:
    """Return the failure of a connection."""
    pool = ConnectionPool(network, harness.clock, SeededEntropy(), ConnectionSettings(), "tester")
    pool.put_node(1, HOST, port)
    with pytest.raises(ClientError) as failure:
        await pool.ready(1, 5000)
    await pool.close()
    await asyncio.sleep(1)
    return failure.value


@pytest.mark.parametrize(
    ("server", "client", "reason"),
    [
        (server_options(), client_options(trust_store=trust_store(foreign_authority())), "not accepted"),
        (server_options(make_server_certificate(authority(), HOSTS, EXPIRED)), client_options(), "expired"),
        (
            server_options(make_server_certificate(authority(), ("elsewhere.example",), VALIDITY)),
            client_options(),
            "Hostname mismatch",
        ),
        (server_options(protocols=("TLSv1.2",)), client_options(protocols=("TLSv1.3",)), "no TLS version"),
        (server_options(**REQUIRED), client_options(), "certificate"),
        (server_options(**REQUIRED, protocols=("TLSv1.2",)), client_options(), "certificate"),
        (
            server_options(**REQUIRED),
            client_options(make_client_certificate(authority(), "alice", EXPIRED)),
            "certificate has expired",
        ),
        (
            server_options(**REQUIRED, trust_store=trust_store(foreign_authority())),
            client_options(client_certificate()),
            "authority",
        ),
    ],
    ids=[
        "unknown authority",
        "expired server",
        "other host",
        "no common version",
        "missing client certificate",
        "missing client certificate, TLS 1.2",
        "expired client",
        "unknown authority of the client",
    ],
)
def test_refused_handshake_is_a_failed_authentication(
    run_scenario: Any, server: TlsOptions, client: TlsOptions, reason: str
) -> None:
    async def scenario(harness: Any) -> None:
        host = tls_network(harness.network.host(HOST), server)
        listener = await host.listen("", 0, lambda _: Collector())
        failure = await failure_of(
            harness, tls_network(harness.network.host(HOST), None, client), listener.port
        )
        assert isinstance(failure, AuthenticationFailed)
        assert not failure.retriable
        assert reason in str(failure)
        assert f"broker 1 ({HOST}:{listener.port})" in str(failure)
        listener.close()

    run_scenario(scenario, is_listening=False)


def test_connection_that_ends_during_the_handshake_may_be_tried_again(run_scenario: Any) -> None:
    async def scenario(harness: Any) -> None:
        def accept(connection: Connection) -> Receiver:
            asyncio.get_running_loop().call_later(0.1, connection.close)
            return Collector()

        listener = await harness.network.host(HOST).listen("", 0, accept)
        failure = await failure_of(harness, tls_network(harness.network.host(HOST)), listener.port)
        assert isinstance(failure, ConnectionFailed)
        assert failure.retriable
        listener.close()

    run_scenario(scenario, is_listening=False)
