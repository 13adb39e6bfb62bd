"""Principal mapping rules. The cases are those of SslPrincipalMapperTest, and some of Java's syntax."""

from __future__ import annotations

import pytest

from odradek.security.tls.principal_mapper import NoMatchingRule, PrincipalMapper


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    ],
)
def test_valid_rules(rules: str) -> None:
    assert PrincipalMapper(rules).rules


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:a/b/X",
        "RULE:a/b/ L",
        "RULE:a/b/ DEFAULT",
        "RULE:(/b/",
        "RULE:a",
    ],
)
def test_invalid_rules(rules: str) -> None:
    with pytest.raises(ValueError, match=r"rule must be|the case of a rule|pattern of a rule"):
        PrincipalMapper(rules)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_first_matching_rule_applies(name: str, principal: str) -> None:
    rules = (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
        "DEFAULT"
    )
    assert PrincipalMapper(rules).principal_name(name) == principal


def text_of(rules: str) -> str:
    """Write parsed rules as Kafka does."""
    return ", ".join(
        "DEFAULT"
        if rule.pattern is None
        else f"RULE:{rule.pattern.pattern}/{rule.replacement}{'/' if rule.case else ''}{rule.case}"
        for rule in PrincipalMapper(rules).rules
    )


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", ""),
        ("DEFAULT", "DEFAULT"),
        ("RULE:/", "RULE://"),
        ("RULE:/.*", "RULE:/.*/"),
        ("RULE:/.*/L", "RULE:/.*/L"),
        ("RULE:/, DEFAULT", "RULE://,DEFAULT"),
        ("RULE:/, DEFAULT", "  RULE:// ,  DEFAULT  "),
        ("RULE:   /     , DEFAULT", "  RULE:   /     / ,  DEFAULT  "),
        ("RULE:  /     /U, DEFAULT", "  RULE:  /     /U   ,DEFAULT  "),
        (
            "RULE:([A-Z]*)/$1/U, RULE:([a-z]+)/$1, DEFAULT",
            "  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
        ),
        ("", ",   , , ,      , , ,   "),
        ("RULE:/, DEFAULT", ",,RULE://,,,DEFAULT,,"),
        ("RULE: /   , DEFAULT", ",  , RULE: /   /    ,,,   DEFAULT, ,   "),
        ("RULE:   /  /U, DEFAULT", "     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,"),
        (r"RULE:\/\\\(\)\n\t/\/\/", r"RULE:\/\\\(\)\n\t/\/\//"),
        (r"RULE:\**\/+/*/L, RULE:\/*\**/**", r"RULE:\**\/+/*/L,RULE:\/*\**/**/"),
        (
            r"RULE:,RULE:,/,RULE:,\//U, RULE:,/RULE:,, RULE:,RULE:,/L,RULE:,/L, "
            r"RULE:, DEFAULT, /DEFAULT, DEFAULT",
            r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,"
            r"RULE:, DEFAULT, /DEFAULT/,DEFAULT",
        ),
    ],
)
def test_splitting_of_rules(text: str, rules: str) -> None:
    assert text_of(rules) == text


def test_comma_with_white_space() -> None:
    mapper = PrincipalMapper(r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT")
    assert mapper.principal_name(r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz") == r"Tkac\, Adam"


@pytest.mark.parametrize(
    ("rule", "name", "principal"),
    [
        ("RULE:(a)(b)/$2$1/", "ab", "ba"),
        ("RULE:(a)(b)/$12/", "ab", "a2"),  # there is no group 12
        ("RULE:(a)b/$1@$4/", "ab", "a@$4"),
        ("RULE:ab/$0!/", "ab", "ab!"),
        ("RULE:(a)b/$01/", "ab", "a"),
        ("RULE:(?<first>a)b/${first}x/", "ab", "ax"),
        (r"RULE:(a)b/\$1\/x/", "ab", "$1/x"),
        ("RULE:(a)(c)?b/[$2]/", "ab", "[]"),
        ("RULE:.*/x/", "ab", "xx"),  # Java replaces the empty text at the end too
        (r"RULE:\w+/x/", "é", None),  # Java's classes are those of ASCII
        ("RULE:a/x/", "ab", None),  # a pattern must match completely
        ("RULE:ab/$1/", "ab", None),
        ("RULE:ab/x$/", "ab", None),
        ("RULE:ab/${no}/", "ab", None),
        ("RULE:ab/${no/", "ab", None),
        ("", "ab", None),
    ],
)
def test_replacements_have_the_syntax_of_java(rule: str, name: str, principal: str | None) -> None:
    mapper = PrincipalMapper(rule)
    if principal is None:
        with pytest.raises(NoMatchingRule, match=r"ssl\.principal\.mapping\.rules"):
            mapper.principal_name(name)
    else:
        assert mapper.principal_name(name) == principal
