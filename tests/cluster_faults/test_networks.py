"""A network of namespaces loses packets and is slow when it is told so, until it is healed."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.cluster_faults.harness.networks import End, Namespaces, why_no_loss

BROKER = 1
PORT = 9092
SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    while connection.recv(1 << 16):
        pass
    connection.close()
"""


@pytest.fixture
def network() -> Iterator[Namespaces]:
    if reason := why_no_loss():
        pytest.skip(f"loses packets: {reason}")
    network = Namespaces([BROKER])
    command = [sys.executable, "-S", "-c", SERVER, network.host(BROKER), str(PORT)]
    server = subprocess.Popen(network.command(BROKER, command), stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        server.stdout.readline()
        yield network
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        network.close()


def seconds_of_sending(network: Namespaces, count: int) -> float:
    """Return how long a broker takes to get so many bytes."""
    began = time.monotonic()
    with socket.create_connection((network.host(BROKER), PORT), 30) as connection:
        connection.sendall(bytes(count))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    return time.monotonic() - began


def test_slow_link(network: Namespaces) -> None:
    network.slow(BROKER, 512)
    assert seconds_of_sending(network, 64_000) > 0.8
    network.heal()
    assert seconds_of_sending(network, 64_000) < 0.8


def test_lossy_link(network: Namespaces) -> None:
    network.lose(End.CLIENTS, BROKER, 1.0)
    with pytest.raises(TimeoutError):
        socket.create_connection((network.host(BROKER), PORT), 0.5)
    network.heal()
    network.lose(End.CLIENTS, BROKER, 0.2)
    assert seconds_of_sending(network, 64_000) > 0
    network.heal()
    assert seconds_of_sending(network, 64_000) < 0.8
