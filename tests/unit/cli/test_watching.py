"""Looking at a job again and again, also while its store is out of reach."""

import pytest

from looking_kit import LAUNCH, HandMade
from perdure.cli.looking import Looked, Watching
from perdure.clock import SystemClock
from perdure.errors import StoreDamaged, StoreUnavailable
from perdure.journal.journal_format import Kind
from perdure.store.drivers.memory import MemoryDriver


@pytest.fixture
def troubled():
    trouble = []

    def before(_call, _key):
        if trouble:
            raise trouble[0]

    made = HandMade(driver=MemoryDriver(before=before))
    made.launch()
    looked = Looked(places=None, store=made.store, cache=None, clock=SystemClock())
    return made, Watching(looked, made.document, view=made.view()), trouble


def test_a_store_that_is_away_for_a_while_is_waited_for_and_that_is_said_once(troubled, capsys):
    made, watching, trouble = troubled
    before = watching.status()
    trouble.append(StoreUnavailable("the store is out of reach"))
    assert watching.status() is before
    assert watching.status() is before
    assert capsys.readouterr().err == "perdure: the store is out of reach; it is waited for\n"
    trouble.clear()
    made.journal(Kind.CLOSED, launch=LAUNCH)
    assert watching.status() is not before
    trouble.append(StoreUnavailable("the store is out of reach again"))
    watching.status()
    assert "again; it is waited for" in capsys.readouterr().err


def test_what_will_not_get_better_is_an_error(troubled):
    _, watching, trouble = troubled
    watching.status()
    trouble.append(StoreDamaged("it is damaged"))
    with pytest.raises(StoreDamaged):
        watching.status()


def test_a_store_that_was_never_reached_is_an_error(troubled):
    _, watching, trouble = troubled
    trouble.append(StoreUnavailable("the store is out of reach"))
    with pytest.raises(StoreUnavailable):
        watching.status()
