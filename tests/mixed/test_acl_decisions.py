"""Decisions equal those of Kafka's own AclAuthorizer, run in Java without a store, for random ACLs."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.apache_kafka import fetched_jars
from tests.unit.security.acls.slow_authorizer import SUPER_USER, Action, random_actions, random_bindings

from odradek.security.acls.authorizer import AclAuthorizer
from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern

ORACLE = Path(__file__).parent / "acls" / "AclOracle.java"
KAFKA = "3.9.1"
SETS = int(os.environ.get("ODRADEK_TEST_ACL_SETS", "600"))
ACTIONS_PER_SET = 200


def cases() -> Iterator[tuple[list[AclBinding], bool, list[Action]]]:
    for seed in range(SETS):
        entropy = random.Random(seed)
        bindings = random_bindings(entropy, entropy.choice((0, 1, 3, 10, 40, 150)))
        yield bindings, entropy.random() < 0.3, list(random_actions(entropy, ACTIONS_PER_SET))


def questions() -> Iterator[str]:
    for bindings, allows_everyone, actions in cases():
        yield f"new\t{SUPER_USER}\t{str(allows_everyone).lower()}"
        for (resource_type, name, kind), entry in bindings:
            fields = (entry.principal, entry.host, entry.operation.name, entry.permission_type.name)
            yield "\t".join(("acl", resource_type.name, name, kind.name, *fields))
        for principal, host, operation, resource_type, name in actions:
            yield "\t".join(("may", str(principal), host, operation.name, resource_type.name, name))
            yield "\t".join(("any", str(principal), host, operation.name, resource_type.name))


def decisions() -> Iterator[bool]:
    for bindings, allows_everyone, actions in cases():
        acls: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
        for pattern, entry in bindings:
            acls[pattern] = acls.get(pattern, frozenset()) | {entry}
        authorizer = AclAuthorizer([SUPER_USER], allow_everyone_if_no_acl=allows_everyone)
        authorizer.replace(acls)
        for action in actions:
            yield authorizer.is_allowed(*action)
            yield authorizer.is_allowed_on_any(*action[:4])


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_decisions_equal_those_of_kafka() -> None:
    jars = fetched_jars(KAFKA)
    command = ["java", "-cp", f"{jars}/*", f"-Dlog4j.configuration=file:{ORACLE.parent}/log4j.properties"]
    asked = list(questions())
    result = subprocess.run(
        [*command, str(ORACLE)],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    kafkas = [line == "1" for line in result.stdout.split()]
    ours = list(decisions())
    assert len(ours) == len(kafkas) == SETS * ACTIONS_PER_SET * 2
    asked_decisions = [line for line in asked if line[:3] in ("may", "any")]
    different = [
        (question, our, kafka)
        for question, our, kafka in zip(asked_decisions, ours, kafkas, strict=True)
        if our is not kafka
    ]
    assert different == []
    assert 0.1 < sum(ours) / len(ours) < 0.9, "both outcomes are common"
