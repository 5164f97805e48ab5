"""What a command that waited for a job exits with."""

import pytest

from perdure.cli.exits import code_of
from perdure.policy.states import State

CODES = {
    State.SUCCEEDED: (0, 0),
    State.FAILED: (1, 1),
    State.CANCELED: (76, 76),
    State.SUSPENDED: (75, 3),
    State.PENDING: (75, 3),
    State.RUNNING: (75, 3),
}


@pytest.mark.parametrize("state", State)
def test_the_code_says_how_the_job_ended(state):
    usable, unusable = CODES[state]
    assert code_of(state, is_unusable=False) == usable
    assert code_of(state, is_unusable=True) == unusable
