"""``odradek tls make``: private files that work together, and are never overwritten by accident."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from odradek import commands
from odradek.broker.security.tls_options import tls_options
from odradek.client.tls_options import tls_options as client_tls_options
from odradek.config import broker
from odradek.config.client.security import SECURITY_SETTINGS
from odradek.config.definition import by_name, parse_settings
from odradek.security.tls.context_source import handshake_problem
from odradek.security.tls.tls_context import create_context
from odradek.security.tls.tls_options import TlsOptions


def make(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(commands.app, ["tls", "make", "--dir", str(directory), *arguments])


def properties(path: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: value for name, _, value in pairs}


def problem(server: TlsOptions, client: TlsOptions) -> str | None:
    def read(path: str) -> bytes:
        return Path(path).read_bytes()

    accepting = create_context(server, read, server_side=True)
    dialling = create_context(client._replace(endpoint_identification=""), read, server_side=False)
    return handshake_problem(accepting, dialling)


def server_of(directory: Path) -> TlsOptions:
    return tls_options(parse_settings(broker.BY_NAME, properties(directory / "server.properties")), "SSL")


def client_of(directory: Path, name: str) -> TlsOptions:
    table = by_name(SECURITY_SETTINGS)
    settings = parse_settings(table, properties(directory / f"{name}.properties"))
    return client_tls_options(settings, lambda path: Path(path).read_bytes())


@pytest.mark.parametrize("form", [(), ("--pkcs12",)], ids=["pem", "pkcs12"])
def test_written_settings_work(tmp_path: Path, form: tuple[str, ...]) -> None:
    directory = tmp_path / "tls"
    assert make(directory, *form).exit_code == 0
    assert problem(server_of(directory), client_of(directory, "client")) is None
    assert problem(server_of(directory), TlsOptions()) is not None


def test_clients_are_authenticated(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    assert make(directory, "--client", "alice", "--client", "bob").exit_code == 0
    server = server_of(directory)
    assert server.client_auth == "required"
    alice = client_of(directory, "alice")
    assert problem(server, alice) is None
    assert problem(server, client_of(directory, "bob")) is None
    anonymous = alice._replace(key_store=TlsOptions().key_store)
    assert problem(server, anonymous) == "the client sent no certificate"
    # Brokers connect to each other with the certificate of the server.
    assert problem(server, server) is None


def test_files_are_private(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "tls"
    before = os.umask(0)
    try:
        assert make(directory, "--client", "alice", "--pkcs12").exit_code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = sorted(directory.iterdir())
    assert [file.name for file in files] == [
        *(
            "alice.p12",
            "alice.properties",
            "ca-key.pem",
            "ca.p12",
            "ca.pem",
            "server.p12",
            "server.properties",
        )
    ]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_files_are_replaced_only_with_force(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    assert make(directory).exit_code == 0
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    result = make(directory, "--client", "alice")
    assert result.exit_code == 1
    assert "has ca-key.pem, ca.pem, server.pem, server.properties; use --force" in result.stderr
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before
    (directory / "ca.pem").chmod(0o644)
    assert make(directory, "--force").exit_code == 0
    assert (directory / "ca.pem").read_bytes() != before["ca.pem"]
    assert stat.S_IMODE((directory / "ca.pem").stat().st_mode) == 0o600


def test_links_are_not_followed(tmp_path: Path) -> None:
    directory, other = tmp_path / "tls", tmp_path / "other"
    directory.mkdir()
    (directory / "ca-key.pem").symlink_to(other)
    assert make(directory).exit_code == 1
    assert make(directory, "--force").exit_code == 0
    assert not other.exists()


def test_output_has_no_password(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    result = make(directory, "--pkcs12", "--json")
    password = properties(directory / "server.properties")["ssl.keystore.password"]
    assert len(password) >= 24
    assert password not in result.output
    shown = json.loads(result.output)
    assert shown["settings"]["server"]["ssl.keystore.password"] == "[hidden]"
    assert shown["files"] == sorted(file.name for file in directory.iterdir())
    assert password not in make(directory, "--pkcs12", "--force").output


def test_settings_are_printed(tmp_path: Path) -> None:
    result = make(tmp_path / "tls", "--host", "kafka.example.org", "--host", "10.0.0.1")
    assert "listeners=SSL://kafka.example.org:9093\n" in result.output
    assert "security.inter.broker.protocol=SSL\n" in result.output
    assert f"ssl.truststore.location={tmp_path}/tls/ca.pem\n" in result.output
    assert "security.protocol=SSL\n" in result.output
    assert "PRIVATE" not in result.output


@pytest.mark.parametrize("name", ["server", "ca", "client", "../x", "", ".hidden", "a" * 65, "ä"])
def test_client_names_that_are_no_file_names(tmp_path: Path, name: str) -> None:
    result = make(tmp_path / "tls", "--client", name)
    assert result.exit_code == 2
    assert "--client must have only letters" in result.stderr
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--client", "a", "--client", "a"), "must not name a client twice"),
        (("--host", "ä ö"), "--host must be"),
    ],
)
def test_unusable_arguments(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = make(tmp_path / "tls", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = make(tmp_path / "file" / "tls")
    assert result.exit_code == 1
    assert "cannot be written: Not a directory" in result.stderr
