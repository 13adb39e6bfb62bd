"""The rules of replication hold in every state within the default scopes; each planted bug is detected."""

from __future__ import annotations

import pytest
from tests.model.canonical import ORDERS, canonical, renamed
from tests.model.invariants import IN_SYNC, NO_LOSS, violated_by
from tests.model.planted_bugs import PLANTED_BUGS, PlantedBug
from tests.model.rules import Model, Rules
from tests.model.scopes import DEFAULT, LIMITS, NamedScope, NewEpochAfterEveryFailure
from tests.model.search import Search, StateCodec, successors
from tests.model.state import Scope, State, initial_state
from tests.model.story import sentence, tell

TINY = Model(Rules(), Scope(records=1, epochs=2, losses=1))
DELAYED = Model(
    Rules(), Scope(records=1, epochs=3, crashes=1, messages=2, delays_requests=True, initial_isr=0b011)
)


def states_of(model: Model, count: int) -> list[State]:
    """Return the first states of a search without canonical forms."""
    states = {initial_state(model.scope): None}
    queue = list(states)
    for state in queue:
        for _, after in successors(model, state):
            if after not in states and len(queue) < count:
                states[after] = None
                queue.append(after)
    return queue


@pytest.mark.timeout(900)
@pytest.mark.parametrize("named", DEFAULT, ids=lambda named: named.name)
def test_rules_hold_in_every_state(named: NamedScope) -> None:
    result = Search(Model(Rules(), named.scope)).run()
    assert result.violation is None, "\n".join(tell(result.violation))
    assert result.is_complete


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", PLANTED_BUGS, ids=lambda bug: bug.rules.__name__)
def test_planted_bug_is_detected(bug: PlantedBug) -> None:
    assert Search(Model(bug.rules(), bug.scope)).run().violation is not None


@pytest.mark.timeout(900)
@pytest.mark.parametrize("named", LIMITS, ids=lambda named: named.name)
def test_fault_beyond_the_limits_violates_an_invariant(named: NamedScope) -> None:
    assert Search(Model(Rules(), named.scope)).run().violation is not None


@pytest.mark.timeout(900)
def test_new_epoch_after_every_failure_fences_the_replica_that_joins() -> None:
    result = Search(Model(NewEpochAfterEveryFailure(), LIMITS[-1].scope)).run()
    assert result.violation is None
    assert result.is_complete


def test_leader_without_a_committed_record_violates_an_invariant() -> None:
    """No planted bug gets this far: the record is missing in the ISR before a leader lacks it."""
    state = initial_state(TINY.scope)
    history = state.history._replace(committed=(0,), committed_in=(0,))
    assert violated_by(TINY, state._replace(history=history)) == NO_LOSS
    later = history._replace(committed_in=(1,))
    assert violated_by(TINY, state._replace(history=later)) == IN_SYNC


def test_search_with_a_limit_is_not_complete() -> None:
    result = Search(TINY).run(states_max=100)
    assert result.violation is None
    assert not result.is_complete


@pytest.mark.parametrize("model", [TINY, DELAYED], ids=["tiny", "delayed"])
def test_canonical_state_does_not_depend_on_names(model: Model) -> None:
    for state in states_of(model, 1000):
        assert len({canonical(model, renamed(state, order)) for order in ORDERS}) == 1


@pytest.mark.parametrize("model", [TINY, DELAYED], ids=["tiny", "delayed"])
def test_canonical_state_has_the_steps_of_its_states(model: Model) -> None:
    """It may have more: a stale message that is dropped no longer counts towards the bound."""
    for state in states_of(model, 2000):
        representative = canonical(model, state)
        steps = {canonical(model, after) for _, after in successors(model, representative)}
        assert {canonical(model, after) for _, after in successors(model, state)} <= {representative, *steps}


def test_packed_state_is_restored() -> None:
    codec = StateCodec()
    for state in states_of(TINY, 500):
        assert codec.unpack(codec.pack(state)) == state


def test_each_step_has_a_sentence() -> None:
    for state in states_of(TINY, 1000):
        for label, _ in successors(TINY, state):
            assert sentence(label).endswith(".")
