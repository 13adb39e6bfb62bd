"""No secret is shown: a broker at level debug is used in all ways that pass secrets; texts are searched.

Every secret is a random text that occurs nowhere else. It is searched for as it is, in hexadecimal and in
base64, in the output of the broker, errors and logs of clients, answers of DescribeConfigs, and the output of
commands.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import secrets
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.raw_connection import ConnectionEnded, RawConnection, header_v1
from tests.support.secured_broker import MECHANISMS, SecuredBroker
from tests.support.secured_connection import handshake_frame, token_frame
from tests.support.tls import foreign_authority

from odradek import Admin, ConfigResource, ScramMechanism, UserScramCredentialUpsertion
from odradek.config import broker as settings
from odradek.config import sources
from odradek.model.errors import ConfigError

LISTENER: Final = "listener.name.sasl_ssl"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SENSITIVE: Final = sorted(name for name, setting in settings.BY_NAME.items() if setting.sensitive)


class Secrets:
    """Random texts, with the forms in which they might be shown."""

    def __init__(self) -> None:
        self.by_name: dict[str, str] = {}
        self._forms: list[tuple[str, str]] = []

    def new(self, name: str) -> str:
        return self.add(name, f"hush-{secrets.token_hex(12)}")

    def add(self, name: str, text: str) -> str:
        self.by_name[name] = text
        self.add_bytes(name, text.encode())
        self._forms.append((name, text))
        return text

    def add_bytes(self, name: str, data: bytes) -> None:
        self._forms.append((name, data.hex()))
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            # Without the last group, which depends on what follows.
            self._forms.append((name, encode(data)[: len(data) // 3 * 4].decode()))

    def shown_in(self, text: str) -> set[str]:
        """Return the names of the secrets in a text."""
        return {name for name, form in self._forms if form in text}


def test_search_detects_all_forms() -> None:
    hidden = Secrets()
    text = hidden.new("password")
    for shown in (
        f"x{text}y",
        repr(text.encode()),
        text.encode().hex(),
        base64.b64encode(text.encode() + b"tail").decode(),
    ):
        assert hidden.shown_in(shown) == {"password"}
    assert hidden.shown_in("hush-") == set()


class Watched:
    """A broker at level debug, and all texts that others may see."""

    def __init__(self, directory: Path) -> None:
        self.secrets = Secrets()
        self.texts: dict[str, str] = {}
        self.user_password = self.secrets.new("password of a PLAIN user")
        plugin = self.secrets.new("password of an unknown setting")
        users = f'{PLAIN_MODULE} required user_carol="{self.user_password}";'
        self.broker = SecuredBroker(
            directory,
            {
                "odradek.log.level": "debug",
                f"{LISTENER}.plain.sasl.jaas.config": users,
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
                "my.plugin.password": plugin,
            },
        ).start()
        key = Path(self.broker.files["server"]).read_text()
        self.secrets.add("private key", _body_of_key(key))

    @property
    def output(self) -> str:
        """The whole output of the broker."""
        return (self.broker.broker.directory / "output.txt").read_text()

    def note(self, source: str, text: object) -> None:
        self.texts[source] = self.texts.get(source, "") + f"\n{text}"

    def attempt(self, source: str, action: Callable[[], object]) -> None:
        """Run an action, and note its result or error with all causes and notes."""
        try:
            self.note(source, repr(action()))
        except Exception as error:  # noqa: BLE001 - each client has its own exceptions
            cause: BaseException | None = error
            while cause is not None:
                self.note(source, f"{cause!r} {cause} {getattr(cause, '__notes__', '')} {vars(cause)}")
                cause = cause.__cause__ or cause.__context__

    def run(self, *arguments: str, words: str = "") -> str:
        """Run a command at the plaintext listener; return and note its output."""
        program = str(Path(sys.executable).with_name("odradek"))
        bootstrap = (
            ("-b", self.broker.bootstrap("PLAINTEXT")) if arguments[0] not in {"dump-log", "serve"} else ()
        )
        command = [program, *arguments, *bootstrap]
        done = subprocess.run(command, input=words.encode(), capture_output=True, timeout=60, check=False)
        output = (done.stdout + done.stderr).decode(errors="replace")
        self.note(f"odradek {' '.join(arguments[:2])}", output)
        return output

    def shown(self) -> dict[str, set[str]]:
        """Return the secrets in all texts, by source."""
        texts = self.texts | {"output of the broker": self.output}
        return {source: names for source, text in texts.items() if (names := self.secrets.shown_in(text))}


def _body_of_key(pem: str) -> str:
    """Return the first line of a private key."""
    match = re.search(r"PRIVATE KEY-----\n([^\n]+)\n", pem)
    assert match is not None
    return match[1]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    watched = Watched(tmp_path_factory.mktemp("watched"))
    yield watched
    watched.broker.stop()
    assert "\nDEBUG" in watched.output or " DEBUG " in watched.output, "the level is debug"
    assert watched.shown() == {}


@pytest.fixture
def admin(watched: Watched, noted_logs: None) -> Iterator[Admin]:
    with Admin(bootstrap_servers=watched.broker.bootstrap("PLAINTEXT")) as admin:
        yield admin


@pytest.fixture
def noted_logs(watched: Watched, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Note what clients log at level debug."""
    loggers = [logging.getLogger(name) for name in (None, "odradek")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    watched.note(
        "logs of our clients", "\n".join(r.getMessage() for r in caplog.records if "odradek" in r.name)
    )


def _client(watched: Watched, client: str, mechanism: str, password: str, user: str = "carol") -> object:
    """Use a client of ours with a password or token."""
    from odradek import Producer

    options: dict[str, Any] = watched.broker.options("SASL_SSL", mechanism, user)
    if mechanism == "OAUTHBEARER":
        path = watched.broker.directory / f"token-{secrets.token_hex(4)}"
        path.write_text(password)
        options["sasl.oauthbearer.token.endpoint.url"] = f"file:{path}"
    else:
        options["sasl.password"] = password
    with Producer(options, max_block_ms=8_000) as producer:
        watched.note(client, f"{producer!r} {vars(producer)}")
        return producer.send("watched", b"record").result(10)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_with_right_and_wrong_credentials(watched: Watched, admin: Admin, mechanism: str) -> None:
    hidden = watched.secrets
    if mechanism == "OAUTHBEARER":
        right = hidden.add("token", watched.broker.tokens.issue("carol"))
        wrong = hidden.add("expired token", watched.broker.tokens.issue("carol", lifetime_s=-100))
        # The claims of a token are no secret; its signature is.
        for token in (right, wrong):
            hidden.add("signature of a token", token.rpartition(".")[2])
    else:
        right, wrong = watched.user_password, hidden.new(f"wrong password for {mechanism}")
    if mechanism.startswith("SCRAM"):
        kind = ScramMechanism[mechanism.replace("-", "_")]
        right, salt = hidden.new(f"password for {mechanism}"), secrets.token_bytes(20)
        name = kind.name.removeprefix("SCRAM_").replace("_", "").lower()
        salted = hashlib.pbkdf2_hmac(name, right.encode(), salt, 4096)
        hidden.add_bytes("salted password", salted)
        upsertion = UserScramCredentialUpsertion("carol", kind, right, 4096, salt)
        watched.attempt("upsertion", lambda: admin.alter_user_scram_credentials([upsertion]))
        watched.note("upsertion", f"{upsertion!r} {upsertion}")
        watched.attempt("credentials", lambda: admin.describe_user_scram_credentials(["carol", "nobody"]))
    before = len(re.findall("audit.authenticated", watched.output))
    watched.attempt("client", lambda: _client(watched, "client", mechanism, right))
    assert "RecordMetadata" in watched.texts["client"]
    assert len(re.findall("audit.authenticated", watched.output)) > before
    watched.attempt("refused client", lambda: _client(watched, "refused client", mechanism, wrong))
    if mechanism != "OAUTHBEARER":
        unknown = f"user-{secrets.token_hex(3)}"
        watched.attempt(
            "unknown client", lambda: _client(watched, "refused client", mechanism, wrong, unknown)
        )
    assert "authentication_failed" in watched.output
    assert watched.shown() == {}


def test_malformed_tokens(watched: Watched) -> None:
    """A token in the wrong place or form must not be repeated in an error."""
    hidden = watched.secrets
    token = f"\0carol\0{hidden.new('misplaced password')}".encode()
    bearer = b"n,,\x01auth=Bearer " + hidden.new("misplaced token").encode() + b"\x01\x01"
    for data in (token, bearer, token + b"\xff", b"\xff" + token, token + b"\0again", token[1:]):
        for frames in (
            [data],
            [handshake_frame("PLAIN", 0), data],
            [handshake_frame("PLAIN"), token_frame(data)],
            [handshake_frame("PLAIN"), token_frame(data)[:-3]],
            [handshake_frame("PLAIN"), token_frame(data, version=9)],
            [handshake_frame("OAUTHBEARER"), token_frame(data)],
            [handshake_frame("SCRAM-SHA-512"), token_frame(data)],
            [handshake_frame(data.decode("latin-1"))],
            [header_v1(18, 0, client_id=data.decode("latin-1")), token_frame(data)],
        ):
            _send_all(watched, frames)
    assert watched.shown() == {}


def _send_all(watched: Watched, frames: list[bytes]) -> None:
    with RawConnection(watched.broker.bootstrap("SASL_PLAINTEXT")) as connection:
        try:
            for frame in frames:
                connection.send_frame(frame)
            connection.finish_sending()
            while True:
                watched.note("answers", connection.receive_frame().decode("latin-1"))
        except (ConnectionEnded, OSError):
            pass


BAD_JAAS = [
    '{module} required user_carol="{secret}',
    "{module} required user_carol={secret} {secret};",
    '{module} {secret} username="x";',
    "{secret}",
    '{module} required password "{secret}";',
    "{module} required; {module} required user_carol={secret};",
    'com.example.Unknown required password="{secret}";',
]


@pytest.mark.parametrize("is_dry", [False, True])
def test_changed_configs_with_passwords(watched: Watched, admin: Admin, is_dry: bool) -> None:
    hidden, broker = watched.secrets, ConfigResource.broker(0)
    jaas = hidden.new("password in a changed JAAS config")
    values = {
        f"{LISTENER}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_carol="{jaas}";',
        "listener.name.ssl.ssl.keystore.password": hidden.new("password of a key store"),
        "listener.name.ssl.ssl.key.password": hidden.new("password of a key"),
        "listener.name.ssl.ssl.truststore.password": hidden.new("password of a trust store"),
        "listener.name.ssl.ssl.keystore.key": _damaged_key(hidden),
        "some.plugin.password": hidden.new("password of a setting of a plugin"),
        "ssl.keystore.password": hidden.new("password for all listeners"),
    }
    values |= {
        f"listener.name.sasl_plaintext.{number}.sasl.jaas.config": text.format(
            module=PLAIN_MODULE, secret=hidden.new("password in a malformed JAAS config")
        )
        for number, text in enumerate(BAD_JAAS)
    }
    for text in BAD_JAAS:
        value = text.format(module=PLAIN_MODULE, secret=hidden.new("password in a JAAS config"))
        for name in (f"{LISTENER}.plain.sasl.jaas.config", f"{LISTENER}.sasl.jaas.config"):
            _alter(watched, admin, broker, {name: value}, is_dry=is_dry)
    for name, value in values.items():
        _alter(watched, admin, broker, {name: value}, is_dry=is_dry)
        _alter(watched, admin, ConfigResource.broker(None), {name: value}, is_dry=is_dry)
    for broker_id in (None, 0):
        resource = ConfigResource.broker(broker_id)
        described = admin.describe_configs([resource], include_synonyms=True, include_documentation=True)
        watched.note("described configs", described)
    assert watched.shown() == {}


def _alter(
    watched: Watched, admin: Admin, resource: ConfigResource, change: dict[str, str], *, is_dry: bool
) -> None:
    watched.attempt("altered configs", lambda: admin.alter_configs({resource: change}, validate_only=is_dry))


def _damaged_key(hidden: Secrets) -> str:
    """Return a private key whose last line is damaged."""
    pem = foreign_authority().key_pem()
    hidden.add("private key in a config", _body_of_key(pem))
    lines = pem.strip().splitlines()
    return "\n".join([*lines[:-2], lines[-2][::-1], lines[-1]])


def test_commands(watched: Watched) -> None:
    hidden = watched.secrets
    assert "carol" in watched.run("users", "add", "carol", words=f"{hidden.new('typed password')}\n")
    watched.run("users", "list", "--json")
    watched.run("users", "add", "carol", "--mechanism", "PLAIN", words=f"{hidden.new('typed in vain')}\n")
    jaas = hidden.new("JAAS config of a command")
    watched.run(
        *("configs", "set", "--broker", "0"),
        f'{LISTENER}.plain.sasl.jaas.config={PLAIN_MODULE} required user_carol="{jaas}";',
    )
    watched.run("configs", "set", "--broker", "0", f"ssl.keystore.password={hidden.new('set by a command')}")
    for extra in ([], ["--json"]):
        assert "sasl.jaas.config" in watched.run("configs", "describe", "--broker", "0", "--all", *extra)
    watched.run("configs", "describe", "--all-brokers", "--all")
    password = hidden.new("password of an option")
    for options in (
        [
            "-X",
            f"sasl.password={password}",
            "-X",
            "sasl.mechanism=GSSAPI",
            "-X",
            "security.protocol=SASL_SSL",
        ],
        ["-X", f"sasl.jaas.config={PLAIN_MODULE} required password={password}"],
        ["-X", f"ssl.key.password={password}", "-X", "security.protocol=SSL"],
        ["-X", f"sasl.password={password}", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=carol"],
    ):
        watched.run("topics", "list", *options)
    assert watched.shown() == {}


def test_dumped_logs(watched: Watched) -> None:
    from odradek import Consumer

    options = watched.broker.options("SASL_SSL", "PLAIN", "carol") | {"sasl.password": watched.user_password}
    with Consumer(options, group_id="group", auto_offset_reset="earliest") as consumer:
        watched.attempt("consumer", lambda: consumer.subscribe(["watched"]))
        watched.attempt("consumer", lambda: consumer.poll(5))
        watched.attempt("consumer", consumer.commit)
    data = watched.broker.broker.directory / "data"
    logs = [path for path in sorted(data.glob("__*/*.log")) if path.stat().st_size]
    for path in logs:
        watched.run("dump-log", "--print-data-log", str(path))
    assert watched.shown() == {}


@pytest.mark.parametrize("name", SENSITIVE)
def test_invalid_secrets_are_not_repeated(name: str) -> None:
    """No problem or warning of the static configuration has the value of a secret setting."""
    hidden = Secrets()
    text = hidden.new(name)
    for value in (text, f"{text}\n{text}", f'"{text}', f"{PLAIN_MODULE} required password={text}"):
        for prefix in ("", "listener.name.sasl_ssl.", "listener.name.sasl_ssl.plain."):
            try:
                loaded = sources.load(
                    None, {}, [f"{prefix}{name}={value}", "listeners=PLAINTEXT://127.0.0.1:1"]
                )
                shown = f"{loaded.warnings} {loaded.settings!r}"
            except ConfigError as error:
                shown = f"{error.problems} {error!r}"
            assert hidden.shown_in(shown) == set()


@pytest.mark.parametrize(
    "pairs",
    [
        ["ssl.keystore.type=PEM", "ssl.keystore.key={key}", "ssl.keystore.certificate.chain={secret}"],
        ["ssl.keystore.type=PKCS12", "ssl.keystore.location=missing", "ssl.keystore.password={secret}"],
        ["ssl.keystore.type=JKS", "ssl.keystore.location=missing", "ssl.key.password={secret}"],
        ["ssl.truststore.type=PEM", "ssl.truststore.certificates={secret}"],
        [f"{LISTENER}.plain.sasl.jaas.config={{secret}}"],
        [f"{LISTENER}.plain.sasl.jaas.config={PLAIN_MODULE} required password={{secret}}"],
        [f"{LISTENER}.plain.sasl.jaas.config={PLAIN_MODULE} required user_x={{secret}} oops={{secret}};;"],
        ["odradek.sasl.plain.users.file={users}"],
        ["sasl.jaas.config={secret}", "sasl.mechanism.inter.broker.protocol=PLAIN"],
        ["password.encoder.secret={secret}", "num.partitions=x"],
    ],
    ids=str,
)
def test_failed_start_shows_no_secret(watched: Watched, tmp_path: Path, pairs: list[str]) -> None:
    hidden = watched.secrets
    users = tmp_path / "users"
    users.write_text(f"no colon {hidden.new('line of a users file')}\n")
    context = {
        "secret": hidden.new("secret of a failed start"),
        "key": _damaged_key(hidden),
        "users": str(users),
    }
    arguments = [part for pair in pairs for part in ("--set", pair.format(**context))]
    output = watched.run(
        *("serve", "--log-level", "debug", "--data-dir", str(tmp_path / "data")),
        *("--set", "listeners=SASL_SSL://127.0.0.1:0", "--set", "security.inter.broker.protocol=SASL_SSL"),
        *("--set", "sasl.enabled.mechanisms=PLAIN", *arguments),
    )
    assert "odradek: " in output
    assert "Traceback" not in output
    assert hidden.shown_in(output) == set()


def test_files_with_secrets_are_private(tmp_path: Path) -> None:
    """Others can read neither keys nor passwords nor the store with credentials, with any umask."""
    program = str(Path(sys.executable).with_name("odradek"))
    command = [program, "serve", "--secure", "--port", "0", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, umask=0, cwd=tmp_path
    )
    assert process.stdout is not None
    try:
        output = ""
        for line in process.stdout:
            output += line
            if "try:" in line:
                break
        tls = subprocess.run(
            [program, "tls", "make", "--dir", "certificates"],
            capture_output=True,
            umask=0,
            cwd=tmp_path,
            check=False,
        )
        assert tls.returncode == 0, tls.stderr
        private = [
            *(tmp_path / "data.security").iterdir(),
            *(tmp_path / "certificates").iterdir(),
            *(tmp_path / "data").glob("odradek-store.sqlite*"),
        ]
        names = {path.name for path in private}
        assert {"users", "server.pem", "authority-key.pem", "client.properties"} <= names
        assert {"odradek-store.sqlite", "odradek-store.sqlite-wal"} <= names
        modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in private}
        assert set(modes.values()) == {"0o600"}, modes
        assert stat.S_IMODE((tmp_path / "data.security").stat().st_mode) == 0o700
        password = (tmp_path / "data.security" / "users").read_text().partition(":")[2].strip()
        assert password
    finally:
        process.terminate()
        output += process.stdout.read()
        process.wait(20)
        process.stdout.close()
    assert password not in output
