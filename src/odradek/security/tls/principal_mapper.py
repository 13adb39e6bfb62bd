"""Maps the distinguished name of a certificate to a principal name: ``ssl.principal.mapping.rules``.

Rules are tried in order. ``DEFAULT`` takes the name as it is; ``RULE:pattern/replacement/`` with an optional
``L`` (lower case) or ``U`` (upper case) applies to names that the pattern matches completely. Patterns and
replacements have Java's syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

DEFAULT_RULE: Final = "DEFAULT"
_RULE_START: Final = "RULE:"
_WHITESPACE: Final = " \t\n\v\f\r"
_JAVA_GROUP_NAME: Final = re.compile(r"\(\?<([A-Za-z]\w*)>")
# A slash ends a part of a rule unless a backslash precedes it, which stays in the part.
_PART: Final = re.compile(r"((?:\\.|[^\\/])*)/")
_WORD: Final = re.compile(r"[^,]*")


class NoMatchingRule(Exception):
    """Raised for a distinguished name that no rule applies to: the connection must be closed."""


class PrincipalRule(NamedTuple):
    """One rule; without a pattern it takes the name as it is. ``case`` is "L", "U" or empty."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the principal name, or None if the rule does not apply."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        principal = self.pattern.sub(self._expand, name)
        match self.case:
            case "L":
                return principal.lower()
            case "U":
                return principal.upper()
            case _:
                return principal

    def _expand(self, matched: re.Match[str]) -> str:
        return "".join(_expand(self.replacement, matched))


class PrincipalMapper:
    """The rules of a listener. Raises ``ValueError`` for text that is not a list of rules."""

    def __init__(self, text: str = DEFAULT_RULE) -> None:
        self.rules = tuple(_parse_rules(text.strip()))
        self._text = text

    def principal_name(self, distinguished_name: str) -> str:
        """Return the principal name of a certificate's subject; raises NoMatchingRule."""
        try:
            for rule in self.rules:
                name = rule.apply(distinguished_name)
                if name is not None:
                    return name
        except (ValueError, IndexError) as error:
            raise NoMatchingRule(
                f"ssl.principal.mapping.rules cannot map {distinguished_name}: {error}"
            ) from None
        raise NoMatchingRule(
            f"no rule of ssl.principal.mapping.rules={self._text} applies to {distinguished_name}"
        )


def _parse_rules(text: str) -> Iterator[PrincipalRule]:
    position = 0
    while position < len(text):
        if text[position] == "," or text[position] in _WHITESPACE:
            position += 1  # empty rules are ignored
        elif text.startswith(_RULE_START, position):
            rule, position = _parse_rule(text, position)
            yield rule
        else:
            word, position = _take_word(text, position)
            if word != DEFAULT_RULE:
                raise ValueError(f"rule must be DEFAULT or RULE:pattern/replacement/[LU], got {word}")
            yield PrincipalRule()


def _parse_rule(text: str, start: int) -> tuple[PrincipalRule, int]:
    pattern = _PART.match(text, start + len(_RULE_START))
    replacement = None if pattern is None else _PART.match(text, pattern.end())
    if pattern is None or replacement is None:
        raise ValueError(f"rule must be RULE:pattern/replacement/[LU], got {_take_word(text, start)[0]}")
    case, end = _take_word(text, replacement.end())
    if case not in ("", "L", "U"):
        raise ValueError(
            f"the case of a rule must be L, U or empty, got {case} after {text[start : replacement.end()]}"
        )
    return PrincipalRule(_compile(pattern[1]), replacement[1], case), end


def _take_word(text: str, start: int) -> tuple[str, int]:
    """Return the text before the next comma, and the position of the comma."""
    word = _WORD.match(text, start)
    assert word is not None, "matches the empty text too"
    return word[0].rstrip(_WHITESPACE), word.end()


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        # Java's classes such as \w are those of ASCII.
        return re.compile(_JAVA_GROUP_NAME.sub(r"(?P<\1>", pattern), re.ASCII)
    except (re.error, OverflowError) as error:
        raise ValueError(f"pattern of a rule is invalid: {pattern}: {error}") from None


def _expand(replacement: str, matched: re.Match[str]) -> Iterator[str]:
    """Expand Java's ``$1``, ``${name}`` and ``\\x``. As in Kafka, a number without a group is literal text
    unless the pattern has no groups at all."""
    position = 0
    while position < len(replacement):
        character = replacement[position]
        following = replacement[position + 1 : position + 2]
        position += 1
        if character == "\\":
            if not following:
                raise ValueError("a backslash ends the replacement")
            yield following
            position += 1
        elif character != "$":
            yield character
        elif following == "{":
            name, brace, _ = replacement[position + 1 :].partition("}")
            if not brace:
                raise ValueError("a brace of the replacement is not closed")
            yield matched[name] or ""
            position += len(name) + 2
        else:
            group, position = _group_number(replacement, position, matched.re.groups)
            yield "$" if group is None else matched[group] or ""


def _group_number(replacement: str, position: int, groups: int) -> tuple[int | None, int]:
    """Return the group after a dollar sign: as many digits as give an existing group; None for no group."""
    digits = re.compile(r"[0-9]*").match(replacement, position)
    assert digits is not None, "matches the empty text too"
    if not digits[0]:
        raise ValueError("a dollar sign of the replacement has no group number")
    number = int(digits[0][0])
    if number > groups:
        if not groups:
            raise ValueError(f"the pattern has no group {number}")
        return None, position
    end = position + 1
    for digit in digits[0][1:]:
        if number * 10 + int(digit) > groups:
            break
        number, end = number * 10 + int(digit), end + 1
    return number, end
