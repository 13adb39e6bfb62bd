"""JAAS login configurations, as in ``sasl.jaas.config``: login modules with their options.

``<login module> <control flag> <option>=<value> ... ;`` with tokens as Java's StreamTokenizer takes them
under the settings of Kafka's JaasConfig. Login modules are names in a table; nothing is ever loaded by name.
Error messages give positions and no text of the configuration, since a misplaced quote makes a name of a
password.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from odradek.model.secret import Secret

LENGTH_MAX: Final = 1 << 20
"""Longest configuration in characters: room for thousands of users."""

USER_PREFIX: Final = "user_"
EXTENSION_PREFIX: Final = "extension_"
UNSECURED_PREFIXES: Final = ("unsecuredLogin", "unsecuredValidator")


class JaasError(ValueError):
    """Raised for a JAAS configuration that is malformed or not supported."""


class LoginModule(enum.Enum):
    PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
    SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
    OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


MODULES: Final[Mapping[str, LoginModule]] = {module.value: module for module in LoginModule}
KERBEROS_MODULES: Final = frozenset(
    ("com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule")
)
CONTROL_FLAGS: Final = frozenset(("required", "requisite", "sufficient", "optional"))


class JaasEntry(NamedTuple):
    """A login module and its options."""

    module: LoginModule
    control_flag: str
    options: Mapping[str, Secret]

    def text(self, option: str) -> str | None:
        """Return an option that is no secret, without blanks around it; None if it is absent or blank."""
        value = self.options.get(option)
        return (value.reveal().strip() or None) if value is not None else None

    def required(self, option: str) -> Secret:
        value = self.options.get(option)
        if value is None or not value.reveal():
            raise JaasError(f"login module {self.module.value} needs option {option}")
        return value

    def is_true(self, option: str) -> bool:
        value = self.options.get(option)
        return value is not None and value.reveal().lower() == "true"

    def with_prefix(self, prefix: str) -> dict[str, Secret]:
        """Return the options whose names begin with ``prefix``, by the rest of their names."""
        return {
            name.removeprefix(prefix): value
            for name, value in self.options.items()
            if name.startswith(prefix)
        }

    def users(self) -> dict[str, Secret]:
        """Return the passwords of ``user_<name>="<password>"`` options by name."""
        return self.with_prefix(USER_PREFIX)

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions of ``extension_<name>="<value>"`` options."""
        return {name: value.reveal() for name, value in self.with_prefix(EXTENSION_PREFIX).items()}


def parse_jaas(text: str) -> tuple[JaasEntry, ...]:
    """Parse a configuration with at least one entry. Raises JaasError."""
    if len(text) > LENGTH_MAX:
        raise JaasError(f"JAAS configuration must be at most {LENGTH_MAX} characters, got {len(text)}")
    tokens = _tokens(text)
    entries = []
    for token in tokens:
        entries.append(_entry(token, tokens))
    if not entries:
        raise JaasError("no login module in the JAAS configuration")
    return tuple(entries)


def parse_jaas_config(text: str) -> JaasEntry:
    """Parse the value of a ``sasl.jaas.config``, which has exactly one entry. Raises JaasError."""
    entries = parse_jaas(text)
    if len(entries) != 1:
        raise JaasError(f"sasl.jaas.config must contain 1 login module, got {len(entries)}")
    return entries[0]


def check_secured(entry: JaasEntry) -> None:
    """Refuse options of Kafka's unsecured tokens, which anybody can make. Raises JaasError."""
    if any(name.startswith(UNSECURED_PREFIXES) for name in entry.options):
        raise JaasError(
            "unsecured OAUTHBEARER tokens (options unsecuredLogin..., unsecuredValidator...) are not "
            "supported: use signed tokens, and sasl.oauthbearer.jwks.endpoint.url on brokers"
        )


class _Token(NamedTuple):
    """``text`` is None for a single character that is no word: the character is ``kind``."""

    kind: str
    text: str | None
    position: int


_WORD: Final = "word"
_END: Final = "end"
_WORD_PATTERN: Final = re.compile("[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\\-\xa0-\U0010ffff]*")
"""Java takes a word that begins with a digit, a dot or a minus sign for a number."""
_LINE_COMMENT: Final = re.compile(r"/[\s\S]?[^\r\n]*")
"""The character after the slash belongs to the comment even if it ends the line."""
_QUOTED: Final = re.compile(r""""((?:[^"\\\r\n]|\\.)*)"|'((?:[^'\\\r\n]|\\.)*)'""", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_CONTROL_ESCAPES: Final = {
    "a": "\x07",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


def _tokens(text: str) -> Iterator[_Token]:
    """Yield words, quoted strings and single characters, then an end."""
    position = 0
    while position < len(text):
        char = text[position]
        start = position
        if char <= " ":
            position += 1
        elif char == "/":
            position = _after_comment(text, position)
        elif char in "\"'":
            quoted = _QUOTED.match(text, position)
            if quoted is None:
                raise JaasError(f"quote at character {position + 1} of the JAAS configuration is not closed")
            position = quoted.end()
            body = quoted[1] if quoted[1] is not None else quoted[2]
            yield _Token(_WORD, _ESCAPE.sub(_unescaped, body), start)
        elif word := _WORD_PATTERN.match(text, position):
            position = word.end()
            yield _Token(_WORD, word[0], start)
        else:
            position += 1
            yield _Token(char, None, start)


def _after_comment(text: str, position: int) -> int:
    """Return the position after a comment: ``/* */``, or else the rest of the line after any slash."""
    if not text.startswith("/*", position):
        comment = _LINE_COMMENT.match(text, position)
        return comment.end() if comment is not None else position + 1
    # An asterisk does not both open and close a comment.
    end = text.find("*/", position + 2)
    return len(text) if end < 0 else end + 2


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _CONTROL_ESCAPES.get(escape, escape)


def _entry(first: _Token, tokens: Iterator[_Token]) -> JaasEntry:
    """Read an entry whose first token is ``first``."""
    module = _login_module(first)
    flag = _next(tokens)
    if flag.text is None or flag.text.lower() not in CONTROL_FLAGS:
        raise JaasError(
            f"control flag must be one of {', '.join(sorted(CONTROL_FLAGS))}, got another word at "
            f"{_place(flag)} of the JAAS configuration"
        )
    options: dict[str, Secret] = {}
    while (key := _next(tokens)).kind != ";":
        if key.kind == _END:
            raise JaasError("entry of the JAAS configuration must end with a semicolon, got the end")
        equals = _next(tokens)
        value = _next(tokens)
        if key.text is None or equals.kind != "=" or value.text is None:
            raise JaasError(
                "options must be of the form name=value, with quotes around values that are not words, got "
                f"something else at {_place(key)} of the JAAS configuration"
            )
        options[key.text] = Secret(value.text)
    return JaasEntry(module, flag.text.lower(), options)


_CLASS_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)+", re.ASCII)


def _login_module(token: _Token) -> LoginModule:
    name = token.text
    if name is None or not _CLASS_NAME.fullmatch(name):
        raise JaasError(f"login module expected at {_place(token)} of the JAAS configuration")
    if name in KERBEROS_MODULES:
        raise JaasError("login module Krb5LoginModule is not supported: there is no GSSAPI (Kerberos) here")
    module = MODULES.get(name)
    if module is None:
        raise JaasError(f"login module {name} is not supported; choose one of {', '.join(sorted(MODULES))}")
    return module


def _next(tokens: Iterator[_Token]) -> _Token:
    return next(tokens, _Token(_END, None, -1))


def _place(token: _Token) -> str:
    return "the end" if token.kind == _END else f"character {token.position + 1}"
