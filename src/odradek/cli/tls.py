"""``odradek tls``: make an authority and certificates for tests and first use."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from odradek.cli.errors import CommandFailed, command, usage_error
from odradek.cli.output import show_json, show_line
from odradek.cli.target import Json

if TYPE_CHECKING:
    from odradek.model.secret import Secret
    from odradek.security.tls.certificates import IssuedCertificate

app = typer.Typer(help="Make certificates for TLS.", no_args_is_help=True)

AUTHORITY: Final = "ca"
SERVER: Final = "server"
CLIENT: Final = "client"
_RESERVED: Final = (AUTHORITY, "ca-key", SERVER, CLIENT)
_CLIENT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PORT: Final = 9093
_PASSWORD_BYTES: Final = 18
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_HIDDEN: Final = "[hidden]"

Properties = dict[str, str]


class _Output(NamedTuple):
    """Files by their names, and the settings in the ``.properties`` files."""

    files: dict[str, bytes]
    properties: dict[str, Properties]


class _Format(NamedTuple):
    """Format of the stores: PEM, or PKCS12 with a password."""

    type: str
    suffix: str
    password: Secret | None


@app.command()
@command
def make(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Write to this directory (created with mode 0700).")
    ] = Path("tls"),
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="Name or address by which clients reach the broker. May be repeated (default: localhost, "
            "127.0.0.1, ::1 and the name of this machine).",
        ),
    ] = None,
    clients: Annotated[
        list[str] | None,
        typer.Option(
            "--client",
            metavar="NAME",
            help="Also make a certificate for this client (principal User:CN=NAME), and require client "
            "certificates. May be repeated.",
        ),
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=36500, help="Validity in days.")] = 365,
    pkcs12: Annotated[
        bool,
        typer.Option("--pkcs12", help="Write PKCS12 stores with a random password instead of PEM files."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: Json = False,
) -> None:
    """Make an authority, the certificate of a broker, and certificates of clients.

    Prints the settings of the broker and its clients, which are also in .properties files. All files are
    readable by their owner only. Keep ca-key.pem secret: it can sign certificates that the broker accepts.

    Example: odradek tls make --host kafka.example.org --client alice
    """
    _check_client_names(clients or [])
    output = _make(directory.absolute(), hosts or _default_hosts(), clients or [], days, pkcs12)
    _write(directory, output.files, force=force)
    if json:
        show_json(
            {
                "directory": str(directory.absolute()),
                "files": sorted(output.files),
                "settings": {name: _without_passwords(values) for name, values in output.properties.items()},
            }
        )
        return
    for name, values in output.properties.items():
        show_line(f"# {directory.absolute() / name}.properties")
        for setting, value in _without_passwords(values).items():
            show_line(f"{setting}={value}")
        show_line("")


def _check_client_names(names: list[str]) -> None:
    for name in names:
        if _CLIENT_NAME.fullmatch(name) is None or name in _RESERVED:
            usage_error(
                "--client must have only letters, digits, dots, underscores and hyphens, and not be one of "
                f"{', '.join(_RESERVED)}, got {name}"
            )
    if len(set(names)) < len(names):
        usage_error(f"--client must not name a client twice, got {', '.join(names)}")


def _default_hosts() -> list[str]:
    return list(dict.fromkeys((*_LOOPBACK, os.uname().nodename)))


def _make(directory: Path, hosts: list[str], clients: list[str], days: int, pkcs12: bool) -> _Output:
    from odradek.client.environment import system_environment
    from odradek.model.secret import Secret
    from odradek.security.tls import certificates

    environment = system_environment()
    validity = certificates.Validity.of_days(environment.clock.wall_ms(), days)
    token = base64.urlsafe_b64encode(environment.entropy.token(_PASSWORD_BYTES)).decode()
    form = _Format("PKCS12", ".p12", Secret(token)) if pkcs12 else _Format("PEM", ".pem", None)
    authority = certificates.make_authority("Odradek CA", validity)
    try:
        server = certificates.make_server_certificate(authority, hosts, validity)
    except ValueError as error:
        usage_error(f"--host must be a host name or an address, got {', '.join(hosts)}: {error}")
    files = {
        "ca.pem": authority.certificate_pem.encode(),
        "ca-key.pem": authority.key_pem().encode(),
        f"{SERVER}{form.suffix}": _key_store(server, SERVER, form),
    }
    if form.password is not None:
        files["ca.p12"] = certificates.trust_store_pkcs12(authority, form.password)
    trust = _trust_store_settings(directory, form)
    properties = {
        SERVER: {**_server_settings(hosts, clients), **_key_store_settings(directory, SERVER, form), **trust}
    }
    protocol = {"security.protocol": "SSL"}
    if not clients:
        properties[CLIENT] = {**protocol, **trust}
    for name in clients:
        certificate = certificates.make_client_certificate(authority, name, validity)
        files[f"{name}{form.suffix}"] = _key_store(certificate, name, form)
        properties[name] = {**protocol, **_key_store_settings(directory, name, form), **trust}
    for name, values in properties.items():
        lines = [f"{setting}={value}\n" for setting, value in values.items()]
        files[f"{name}.properties"] = "".join(lines).encode()
    return _Output(files, properties)


def _server_settings(hosts: list[str], clients: list[str]) -> Properties:
    host = f"[{hosts[0]}]" if ":" in hosts[0] else hosts[0]
    return {
        "listeners": f"SSL://{host}:{_PORT}",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required" if clients else "none",
    }


def _key_store(certificate: IssuedCertificate, name: str, form: _Format) -> bytes:
    if form.password is None:
        return certificate.key_store_pem().encode()
    return certificate.key_store_pkcs12(name, form.password)


def _key_store_settings(directory: Path, name: str, form: _Format) -> Properties:
    settings = {
        "ssl.keystore.type": form.type,
        "ssl.keystore.location": str(directory / f"{name}{form.suffix}"),
    }
    if form.password is not None:
        settings["ssl.keystore.password"] = form.password.reveal()
    return settings


def _trust_store_settings(directory: Path, form: _Format) -> Properties:
    settings = {
        "ssl.truststore.type": form.type,
        "ssl.truststore.location": str(directory / f"{AUTHORITY}{form.suffix}"),
    }
    if form.password is not None:
        settings["ssl.truststore.password"] = form.password.reveal()
    return settings


def _without_passwords(values: Mapping[str, str]) -> Properties:
    """Return the settings for a terminal; the passwords are in the files."""
    return {name: _HIDDEN if name.endswith("password") else value for name, value in values.items()}


def _write(directory: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        existing = [name for name in files if os.path.lexists(directory / name)]
        if existing and not force:
            raise CommandFailed(f"{directory} has {', '.join(sorted(existing))}; use --force to replace them")
        for name, content in files.items():
            _write_private(directory / name, content)
    except OSError as error:
        raise CommandFailed(f"{directory} cannot be written: {error.strerror or error}") from error


def _write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600, in one step for its readers."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)  # whatever the umask is
        file.write(content)
    os.replace(temporary, path)
