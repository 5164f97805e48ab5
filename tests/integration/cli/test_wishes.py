"""`suspend` and `cancel`, by what happens to real tasks."""

from support.command_line import wait_until


def committed(shell):
    """How many checkpoints there are."""
    return len(shell.json("checkpoints", "last")["checkpoints"])


def at_work(shell, saver):
    """A job whose task has saved twice, and saves once more when it is asked."""
    outside = shell.folder / "outside"
    outside.mkdir()
    shell("submit", shell.template(saver), "-p", f"Folder={outside}")
    wait_until(lambda: committed(shell) == 2, "two checkpoints are committed")


def attempt(shell):
    (found,) = shell.json("status", "last")["attempts"]
    return found


def test_now_asks_nobody_to_save(shell, saver):
    at_work(shell, saver)
    assert shell.json("suspend", "last", "--now")["recorded"]
    shell("wait", "last", expect=75)
    assert committed(shell) == 2
    assert (attempt(shell)["outcome"], attempt(shell)["exit_code"]) == ("SUSPENDED", -9)


def test_with_notice_the_task_saves_once_more(shell, saver):
    at_work(shell, saver)
    assert shell.json("suspend", "last")["recorded"]
    shell("wait", "last", expect=75)
    assert committed(shell) == 3


def test_what_is_suspended_already_is_not_suspended_again(suspended, failed):
    assert not suspended.json("suspend", "last")["recorded"]
    assert not suspended.json("suspend", "last", "--task", "Work", "--now")["recorded"]
    said = suspended("suspend", "last").stdout
    assert "nothing is left to stop; the job is suspended already" in said
    assert f"it goes on with: perdure resume {suspended.job}" in said
    assert "the job is FAILED" in failed("suspend", "last").stdout
