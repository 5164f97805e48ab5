"""What an action prints: logged as it comes, unless values are secret; heard; passed to openjd."""

from queue import SimpleQueue

import pytest

from perdure.protocol.attempt_messages import AttemptMessages, SaveAnnounced, StockSeen
from perdure.worker.action_output import ActionOutput, Hearing
from perdure.worker.machine import Exited, Spawned, SpawnFailed, TreeGone
from perdure.worker.output import OutputLog, read_log


class Printed:
    """An action's output, what was logged of it and what was heard."""

    def __init__(self, tmp_path, *, hears=True):
        self.path = tmp_path / "l.log"
        self.log = OutputLog(self.path)
        self.heard = []
        self.events = SimpleQueue()
        hearing = Hearing(AttemptMessages(is_resume=False), self.heard.append) if hears else None
        self.output = ActionOutput(
            log=self.log, environment={"A": "1", "B": "2"}, events=self.events, hearing=hearing
        )

    def logged(self):
        return read_log(self.path, 0)

    def told(self):
        found = []
        while not self.events.empty():
            found.append(self.events.get())
        return found


@pytest.fixture
def printed(tmp_path):
    made = Printed(tmp_path)
    yield made
    made.log.close()


def test_lines_are_logged_whole_however_they_come(printed):
    for piece in (b"on", b"e\ntw", b"o\nthr", b"ee"):
        assert printed.output.output(piece) == []
    assert printed.logged() == b"one\ntwo\n"
    assert printed.output.output_ended() == []
    assert printed.logged() == b"one\ntwo\nthree\n"
    assert printed.told() == [TreeGone()]


def test_messages_are_heard_and_openjds_own_are_passed_on(printed):
    passed = printed.output.output(
        b"openjd_progress: 50\nplain\nopenjd_checkpoint_save: {}\nopenjd_status: here\n"
    )
    assert passed == ["openjd_progress: 50", "openjd_status: here"]
    assert [type(event) for event in printed.heard] == [StockSeen, SaveAnnounced, StockSeen]
    assert printed.logged().count(b"\n") == 4


def test_the_message_that_would_silence_every_session_is_passed_to_nobody(printed):
    assert printed.output.output(b"openjd_session_runtime_loglevel: ERROR\n") == []


def test_a_chatty_task_is_logged_byte_for_byte(printed):
    block = b"".join(b"line %d of nothing\r" % n for n in range(1000)) + b"\n"
    for _ in range(20):
        assert printed.output.output(block) == []
    assert printed.logged() == block * 20
    assert printed.heard == []


def test_a_line_without_end_is_not_held_back_for_ever(printed):
    for _ in range(5):
        printed.output.output(b"x" * 20_000)
    assert len(printed.logged()) >= 60_000
    printed.output.output_ended()
    assert printed.logged() == b"x" * 100_000 + b"\n"


@pytest.mark.parametrize("cut", range(1, 30, 3))
def test_a_secret_is_never_logged_raw_once_it_is_declared(printed, cut):
    declared = b"before\nopenjd_redacted_env: PASSWORD=hush\nPASSWORD is hush\nlast hush"
    shown = printed.output.output(declared[:cut])
    shown += printed.output.output(declared[cut:])
    shown += printed.output.output_ended()
    assert printed.output.is_secret
    assert b"hush" not in printed.logged()
    # every line since goes through openjd's filter, which hides what it must
    assert "openjd_redacted_env: PASSWORD=hush" in shown
    assert shown[-2:] == ["PASSWORD is hush", "last hush"]
    printed.output.record("PASSWORD is ********")
    assert printed.logged().endswith(b"PASSWORD is ********\n")


def test_every_line_appears_once_whichever_way_it_goes(printed):
    shown = printed.output.output(b"one\ntw")
    shown += printed.output.output(b"o\nopenjd_redacted_env: A=b\nthree\n")
    logged = printed.logged().decode().splitlines()
    assert sorted([*logged, *shown]) == ["one", "openjd_redacted_env: A=b", "three", "two"]


def test_hidden_from_the_beginning(printed):
    printed.output.hide()
    assert printed.output.output(b"secret\n" + b"y" * 70_000 + b"\n") == [
        "secret",
        "perdure: a line of 70000 bytes is not shown",
    ]
    assert printed.logged() == b""


def test_an_environments_messages_mean_nothing(tmp_path):
    printed = Printed(tmp_path, hears=False)
    assert printed.output.output(b"openjd_checkpoint_save: {}\nopenjd_env: A=1\n") == [
        "openjd_env: A=1"
    ]
    printed.log.close()


def test_the_environment_with_the_sessions_changes(printed):
    assert printed.output.environment({"B": None, "C": "3"}) == {"A": "1", "C": "3"}


def test_the_machine_is_told(printed):
    output = printed.output
    output.spawned(7)
    output.spawn_failed("no such file")
    output.exited(3)
    output.abandoned()
    output.abandoned()
    assert printed.told() == [Spawned(), SpawnFailed(), Exited(code=3), TreeGone()]
    assert (output.pid, output.spawn_error) == (7, "no such file")
