# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in authorization that let somebody do or see what ACLs deny, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

ACLS = "src/odradek/security/acls"
HANDLERS = "src/odradek/broker/handlers"
UNIT = "unit/security/acls/test_authorizer.py"
CASES = "unit/broker/handlers/test_authorization.py"
DETAILS = "unit/broker/handlers/test_authorization_details.py"
APIS = "unit/broker/handlers/test_acl_apis.py"

ACL_PLANTS: list[Plant] = [
    Plant(
        "an ACL that denies wins over those that allow",
        f"{ACLS}/authorizer.py",
        "        if _has_rule(_DENY, (operation,), host, principals, matching):\n            return False\n        implying",
        "        implying",
        (
            f"{UNIT}::test_alice_may_read_orders",
            f"{UNIT}::test_decisions_equal_those_of_the_slow_authorizer",
        ),
    ),
    Plant(
        "denying everybody denies everybody",
        f"{ACLS}/authorizer.py",
        "(text, ANY_USER), host_text(host), operation",
        "(text,), host_text(host), operation",
        (
            f"{UNIT}::test_alice_may_read_orders",
            f"{UNIT}::test_decisions_equal_those_of_the_slow_authorizer",
        ),
    ),
    Plant(
        "a changed ACL counts for decisions made before",
        f"{ACLS}/authorizer.py",
        "        self._index.put(pattern, entries)\n        self._decisions.clear()\n",
        "        self._index.put(pattern, entries)\n",
        (
            f"{UNIT}::test_decision_changes_with_the_acls",
            f"{APIS}::test_created_acl_applies_to_the_next_request",
        ),
    ),
    Plant(
        "ACLs of prefixes apply as long as one of their length is left",
        f"{ACLS}/acl_index.py",
        "        if not lengths[len(pattern.name)]:\n",
        "        if lengths[len(pattern.name)] >= 0:\n",
        (
            f"{UNIT}::test_alice_may_read_orders",
            f"{UNIT}::test_decisions_equal_those_of_the_slow_authorizer",
        ),
    ),
    Plant(
        "a node of ACLs that cannot be decoded opens nothing",
        "src/odradek/store/acls.py",
        "        return DENIES_ALL\n",
        "        return NO_ACLS\n",
        ("unit/store/test_acls.py::test_node_that_cannot_be_decoded_denies_everything",),
    ),
    Plant(
        "brokers that change ACLs of one resource at once lose none",
        "src/odradek/store/acls.py",
        "    return SetDataOp(path, acl_znodes.encode_acls(entries), version) if entries else",
        "    return SetDataOp(path, acl_znodes.encode_acls(entries)) if entries else",
        (
            "unit/store/test_acls.py::test_outdated_knowledge_loses_no_entry",
            "unit/store/test_acls.py::test_concurrent_changes_are_all_made",
            f"{APIS}::test_brokers_that_change_one_resource_at_once_lose_nothing",
        ),
    ),
    Plant(
        "all ACLs are read again after a session expired",
        "src/odradek/broker/broker.py",
        "            membership.on_session(self._acl_manager.reload)\n",
        "            pass\n",
        (f"{APIS}::test_everything_is_read_again_after_a_session_expired",),
    ),
    Plant(
        "a transactional producer needs its transactional id",
        f"{HANDLERS}/produce.py",
        "        context.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id)\n",
        "",
        (
            f"{DETAILS}::test_transactional_produce_needs_the_transactional_id",
            f"{CASES}::test_groups_and_transactional_ids_are_allowed_one_by_one",
            f"{CASES}::test_table_of_requirements_is_what_handlers_ask_for",
        ),
    ),
    Plant(
        "only brokers fetch as followers",
        f"{HANDLERS}/fetch.py",
        "            return self._context.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION)\n",
        "            return True\n",
        (
            f"{CASES}::test_cluster_is_allowed_as_a_whole",
            f"{CASES}::test_table_of_requirements_is_what_handlers_ask_for",
        ),
    ),
    Plant(
        "a list of all topics has only those that its reader may describe",
        f"{HANDLERS}/metadata.py",
        "        allowed += [name for name in batch if name not in denied]\n",
        "        allowed += batch\n",
        (
            f"{DETAILS}::test_list_of_all_topics_has_the_allowed_ones_only",
            f"{DETAILS}::test_list_of_very_many_topics_is_filtered",
        ),
    ),
    Plant(
        "a name beside the id of a topic is neither described nor created",
        f"{HANDLERS}/metadata.py",
        "_missing([topic for topic in allowed if topic.topic_id == ZERO_TOPIC_ID], context)",
        "_missing(allowed, context)",
        (f"{DETAILS}::test_topics_by_id",),
    ),
    Plant(
        "deleting a topic by its id does not tell its name",
        f"{HANDLERS}/delete_topics.py",
        "        name if is_named else None, state.topic_id",
        "        name, state.topic_id",
        (f"{DETAILS}::test_deleting_by_id_does_not_tell_the_name",),
    ),
]
