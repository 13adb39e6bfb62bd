"""JAAS configurations, as Java's tokenizer takes them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.security.sasl import jaas
from odradek.security.sasl.jaas import JaasError, LoginModule, check_secured, parse_jaas, parse_jaas_config

PLAIN = LoginModule.PLAIN.value
SCRAM = LoginModule.SCRAM.value
OAUTH = LoginModule.OAUTHBEARER.value


def options(text: str) -> dict[str, str]:
    return {name: value.reveal() for name, value in parse_jaas_config(text).options.items()}


def test_users_of_a_listener() -> None:
    entry = parse_jaas_config(
        f'{PLAIN} required username="admin" password="admin-secret"\n'
        '    user_admin="admin-secret" user_alice="a;b=c";'
    )
    assert (entry.module, entry.control_flag) == (LoginModule.PLAIN, "required")
    assert {name: value.reveal() for name, value in entry.users().items()} == {
        "admin": "admin-secret",
        "alice": "a;b=c",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a='x\"y'", {"a": 'x"y'}),
        ('a="x\'y"', {"a": "x'y"}),
        ('"a"="b"', {"a": "b"}),
        ('a=""', {"a": ""}),
        (r'a="\"\\"', {"a": '"\\'}),
        (r'a="\t\n\q"', {"a": "\t\nq"}),
        (r'a="\101\1011\7x"', {"a": "AA1\x07x"}),
        (r'a="\477"', {"a": "'7"}),
        ('a="b\\\nc"', {"a": "b\nc"}),
        ("a-1._$=x-1.2_$", {"a-1._$": "x-1.2_$"}),
        ("_a=$b", {"_a": "$b"}),
        ("a=\u00e4\u20ac", {"a": "\u00e4\u20ac"}),
        ("a=b // c=d\n e=f", {"a": "b", "e": "f"}),
        ("a=b / c=d\n e=f", {"a": "b", "e": "f"}),
        ("a=b /* c=d; */ e=f", {"a": "b", "e": "f"}),
        ("a=b /*/ c=d */ e=f", {"a": "b", "e": "f"}),
        ("a=b /**/ e=f", {"a": "b", "e": "f"}),
        ("a=b /* x */e=f", {"a": "b", "e": "f"}),
        ("a=b/c=d\n e=f", {"a": "b", "e": "f"}),
        ("a=b /\nc=d\n e=f", {"a": "b", "e": "f"}),
        ("a=b //\ne=f", {"a": "b", "e": "f"}),
        ('a="//b"', {"a": "//b"}),
        ("a=b a=c", {"a": "c"}),
        ("", {}),
    ],
)
def test_options_are_read_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert options(f"{PLAIN} required {text};") == expected


@pytest.mark.parametrize("flag", ["required", "REQUIRED", "requisite", "Sufficient", "optional"])
def test_control_flags(flag: str) -> None:
    assert parse_jaas_config(f"{SCRAM} {flag};").control_flag == flag.lower()


def test_several_entries() -> None:
    entries = parse_jaas(f"{PLAIN} required a=b; {SCRAM} optional; // end\n")
    assert [entry.module for entry in entries] == [LoginModule.PLAIN, LoginModule.SCRAM]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no login module"),
        (" // nothing\n", "no login module"),
        ("/* open", "no login module"),
        (PLAIN, "control flag"),
        (f"{PLAIN};", "control flag"),
        (f"{PLAIN} username=a;", "control flag"),
        (f"{PLAIN} required", "semicolon"),
        (f"{PLAIN} required a=b", "semicolon"),
        (f"{PLAIN} required a;", "name=value"),
        (f"{PLAIN} required a b;", "name=value"),
        (f"{PLAIN} required a=;", "name=value"),
        (f"{PLAIN} required a==b;", "name=value"),
        (f"{PLAIN} required =b;", "name=value"),
        (f"{PLAIN} required a=b c", "name=value"),
        (f"{PLAIN} required a=\x81;", "name=value"),
        (f"{PLAIN} required a=1;", "name=value"),
        (f"{PLAIN} required a=1b;", "name=value"),
        (f"{PLAIN} required a=-b;", "name=value"),
        (f"{PLAIN} required a=.b;", "name=value"),
        (f"{PLAIN} required a=x:y;", "name=value"),
        (f"{PLAIN} required a=x@y;", "name=value"),
        (f"{PLAIN} required 1=b;", "name=value"),
        (f"{PLAIN} required a=*;", "name=value"),
        (f'{PLAIN} required a="b;', "not closed"),
        (f'{PLAIN} required a="b\n";', "not closed"),
        (f'{PLAIN} required a="b\\', "not closed"),
        ("PlainLoginModule required;", "login module expected"),
        ("; required;", "login module expected"),
        ("com.example.EvilModule required;", "com.example.EvilModule is not supported"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "Kerberos"),
        (f"{PLAIN} required; {SCRAM} required;", "1 login module, got 2"),
    ],
)
def test_malformed_configurations_are_refused(text: str, message: str) -> None:
    with pytest.raises(JaasError, match=message):
        parse_jaas_config(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{PLAIN} x;", f"character {len(PLAIN) + 2} of"),
        (f"{PLAIN} required a=b c;", f"character {len(PLAIN) + 15} of"),
        (f"{PLAIN} required a", f"character {len(PLAIN) + 11} of"),
        (f"{PLAIN} required 'a", f"character {len(PLAIN) + 11} of"),
        (PLAIN, "at the end of"),
        (f"{PLAIN} required; x", f"character {len(PLAIN) + 12} of"),
    ],
)
def test_errors_tell_where(text: str, place: str) -> None:
    with pytest.raises(JaasError, match=place):
        parse_jaas(text)


def test_length_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{PLAIN} required;"
    monkeypatch.setattr(jaas, "LENGTH_MAX", len(text))
    parse_jaas(text)
    with pytest.raises(JaasError, match="at most"):
        parse_jaas(text + " ")


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} required password="hunter2"hunter2";',
        f"{PLAIN} required password=x hunter2 hunter2;",
        f"{PLAIN} hunter2;",
        "hunter2 required;",
        f'{PLAIN} required password="hunter2',
        f"{PLAIN} required a=b; hunter2 c=d;",
    ],
)
def test_errors_quote_nothing_that_may_be_a_password(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(text)
    assert "hunter2" not in str(refused.value)


def test_values_are_not_shown() -> None:
    entry = parse_jaas_config(f'{PLAIN} required password="hunter2";')
    assert "hunter2" not in f"{entry!r} {entry} {entry.options}"


def test_options_of_clients() -> None:
    entry = parse_jaas_config(
        f'{OAUTH} required clientId="c" scope="  " extension_logicalCluster="lkc-1" tokenauth=TRUE;'
    )
    assert entry.extensions() == {"logicalCluster": "lkc-1"}
    assert entry.text("scope") is None
    assert entry.text("other") is None
    assert entry.text("clientId") == "c"
    assert entry.is_true("tokenauth")
    assert not entry.is_true("clientId")
    assert entry.required("clientId").reveal() == "c"
    with pytest.raises(JaasError, match="clientSecret"):
        entry.required("clientSecret")


@pytest.mark.parametrize(
    "option", ["unsecuredLoginStringClaim_sub", "unsecuredValidatorAllowableClockSkewMs", "unsecuredLoginX"]
)
def test_unsecured_tokens_are_refused(option: str) -> None:
    check_secured(parse_jaas_config(f"{OAUTH} required;"))
    with pytest.raises(JaasError, match="unsecured OAUTHBEARER tokens"):
        check_secured(parse_jaas_config(f"{OAUTH} required {option}=x;"))


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_quoted_options_round_trip(values: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        escaped = "".join(f"\\{ord(char):03o}" if char in '"\\\n\r' else char for char in text)
        return f'"{escaped}"'

    text = " ".join(f"{quoted(name)}={quoted(value)}" for name, value in values.items())
    assert options(f"{PLAIN} required {text};") == values


@given(st.text(alphabet=st.sampled_from(" \n\"'\\;=/*ab\x00\x81\u20ac0")))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for prefix in ("", f"{PLAIN} required "):
        with contextlib.suppress(JaasError):
            parse_jaas(prefix + text)
