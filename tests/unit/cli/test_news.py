"""What `run` says while a job goes on."""

import pytest

from looking_kit import HandMade
from perdure.cli.news import News
from perdure.journal.journal_format import Kind
from perdure.manager.managing import Orders


@pytest.mark.parametrize(
    ("what", "is_told"), [("room", True), ("save", True), ("undelivered", True), ("notice", False)]
)
def test_a_save_for_which_there_is_no_room_is_told(what, is_told):
    made, told = HandMade(), []
    made.launch()
    made.share(0, 0)
    made.begun(made.key(0), {"Frame": "1", "Camera": "left,top"})
    view = made.view()
    news = News(view, Orders(), told.append)
    news.listen()
    about = {"step": 1, "task": made.key(0), "attempt": 1}
    made.journal(Kind.NOTED, **about, what=what, text="not committed: no space")
    view.refresh()
    news.tell()
    assert any("no space" in sentence for sentence in told) is is_told


#: Right after the attempts of `looking_kit` have ended.
NOW = 1795946700.0


def test_what_waits_for_its_next_try_from_before_is_said_once():
    made, told = HandMade(), []
    values = {"Frame": "1", "Camera": "left,top"}
    made.launch()
    made.share(0, 0)
    for attempt in (1, 2):
        if attempt > 1:
            made.claim(made.key(0), attempt)
        made.begun(made.key(0), values, attempt=attempt)
        made.ended(made.key(0), "FAILED", attempt=attempt, cause="exit", reason="exited with 1")
    news = News(made.view(), Orders(), told.append)
    news.tell_waiting(NOW)
    name = "Render[Frame=1,Camera=left,top]"
    assert told == [f"{name} is tried again in 10 s (attempt 2 FAILED: exited with 1)"]
    news.tell_waiting(NOW + 60)
    assert len(told) == 1, "it is due"


@pytest.mark.parametrize(("by", "is_told"), [("host", True), ("user", False)])
def test_an_end_that_the_next_attempt_waits_for_is_told(by, is_told):
    made, told = HandMade(), []
    made.launch()
    made.share(0, 0)
    made.begun(made.key(0), {"Frame": "1", "Camera": "left,top"})
    view = made.view()
    news = News(view, Orders(), told.append)
    news.listen()
    made.ended(made.key(0), "SUSPENDED", by=by, ran=1.0, reason="stopped")
    view.refresh()
    news.tell()
    assert (
        any("attempt 1 SUSPENDED: stopped; it is tried again in 5 s" in s for s in told) is is_told
    )
