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
