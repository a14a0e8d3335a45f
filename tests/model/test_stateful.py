"""The core and the reference model, over every op: the short run. `python -m tests.soak` is the long one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.random_walk import wander
from tests.model.stateful import Machine


@pytest.mark.timeout(300)
def test_core_over_every_op_agrees_with_the_reference_model() -> None:
    """Statuses, generations, grants, causes, order, refusals and deadlocks are the model's at every step."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=150,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("seed", range(1, 13))
def test_core_on_large_graphs_keeps_its_indexes(seed: int) -> None:
    """Whatever is put off on graphs of hundreds of nodes comes out as a rebuild has it; `soak large` goes on."""
    assert wander(seed, 400).total() == 400
