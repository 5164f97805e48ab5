"""One attempt's messages: what counts, what is refused, and how it is numbered."""

from perdure.protocol import (
    AttemptMessages,
    ChunkContext,
    Dataset,
    Ends,
    FilesDeclared,
    KeysIgnored,
    Line,
    LineSplitter,
    Overlong,
    PrefixedSeen,
    Progress,
    Refused,
    ResumeReport,
    ResumeStatusSeen,
    SaveAnnounced,
    StockSeen,
    ValueReported,
)
from perdure.protocol.attempt_messages import REFUSED_LIMIT

CHUNK = ChunkContext(parameter="Frame", values=frozenset({3, 4, 5}), kept=frozenset({1, 2}))


def events(text, *, is_resume=False, chunk=None):
    messages = AttemptMessages(is_resume=is_resume, chunk=chunk)
    splitter = LineSplitter()
    lines = splitter.feed(text.encode()) + splitter.finish()
    return [event for line in lines for event in messages.handle(line)], messages


def refused(text, **context):
    found, _ = events(text, **context)
    assert all(isinstance(event, Refused) for event in found)
    return [event.reason for event in found]


def test_a_save_includes_the_dataset_declared_before_it():
    found, _ = events(
        "working\n"
        'openjd_checkpoint_files: {"files": ["/a"]}\n'
        'openjd_checkpoint_save: {"state": "1"}\n'
        'openjd_checkpoint_files: {"dirs": ["/d"], "mode": "RESET"}\n'
        'openjd_checkpoint_save: {"file": "/f"}\n'
    )
    assert found == [
        FilesDeclared(line_number=2, count=1, files=("/a",), dirs=(), is_reset=False),
        SaveAnnounced(line_number=3, n=1, state="1", file=None, dataset=Dataset(files=("/a",))),
        FilesDeclared(line_number=4, count=2, files=(), dirs=("/d",), is_reset=True),
        SaveAnnounced(line_number=5, n=2, state=None, file="/f", dataset=Dataset(dirs=("/d",))),
    ]


def test_refused_saves_are_counted_as_the_task_counts_them():
    found, messages = events(
        "openjd_checkpoint_save: {}\nopenjd_checkpoint_save: nonsense\nopenjd_checkpoint_save: {}\n"
    )
    assert [type(event) for event in found] == [SaveAnnounced, Refused, SaveAnnounced]
    assert [found[0].n, found[1].save, found[2].n] == [1, 2, 3]
    assert messages.saves == 3


def test_after_a_refused_declaration_saves_are_refused_until_a_reset():
    found, _ = events(
        'openjd_checkpoint_files: {"files": ["relative"]}\n'
        "openjd_checkpoint_save: {}\n"
        'openjd_task_complete: {"Frame": 3}\n'
        'openjd_checkpoint_files: {"files": ["/a"], "mode": "RESET"}\n'
        "openjd_checkpoint_save: {}\n",
        chunk=CHUNK,
    )
    assert [type(event) for event in found] == [
        Refused,
        Refused,
        Refused,
        FilesDeclared,
        SaveAnnounced,
    ]
    assert "line 1 were refused" in found[1].reason
    assert "RESET" in found[1].reason
    assert found[1].save == 1
    assert found[4].dataset == Dataset(files=("/a",))


def test_a_declaration_that_was_too_long_counts_as_refused():
    messages = AttemptMessages(is_resume=False)
    long = Overlong(4, 70_000, b'openjd_checkpoint_files: {"files"')
    (event,) = messages.handle(long)
    assert event.name == "openjd_checkpoint_files"
    assert "70000 bytes" in event.reason
    assert isinstance(messages.handle(Line(5, b"openjd_checkpoint_save: {}"))[0], Refused)


def test_other_long_lines_are_no_event():
    messages = AttemptMessages(is_resume=False)
    assert messages.handle(Overlong(1, 70_000, b"progress openjd_checkpoint_save: {}")) == ()
    assert messages.refused == 0


def test_values_of_the_chunk():
    found, _ = events(
        'openjd_task_complete: {"Frame": 4}\n'
        'openjd_checkpoint_files: {"files": ["/5"]}\n'
        'openjd_task_complete: {"Frame": 5}\n'
        "openjd_checkpoint_save: {}\n",
        chunk=CHUNK,
    )
    assert found[0] == ValueReported(line_number=1, value=4, declared=0)
    assert found[2] == ValueReported(line_number=3, value=5, declared=1)
    assert found[3].reported == (4, 5)


def test_values_that_are_refused():
    assert refused('openjd_task_complete: {"Frame": 3}') == ["this step has no chunk parameter"]
    (other,) = refused('openjd_task_complete: {"Layer": 3}', chunk=CHUNK)
    assert "'Frame', not 'Layer'" in other
    (outside,) = refused('openjd_task_complete: {"Frame": 6}', chunk=CHUNK)
    assert outside == "Frame 6 is not in this attempt's chunk"
    (earlier,) = refused('openjd_task_complete: {"Frame": 2}', chunk=CHUNK)
    assert earlier == "Frame 2 was completed by an earlier attempt"
    found, _ = events('openjd_task_complete: {"Frame": 3}\n' * 2, chunk=CHUNK)
    assert found[1].reason == "Frame 3 was already reported"


def test_resume_status_only_in_the_resume_action_and_once():
    line = 'openjd_checkpoint_resume_status: {"status": "RESUMED"}\n'
    (reason,) = refused(line)
    assert "onCheckpointResume" in reason
    found, _ = events(line + line.replace("RESUMED", "DISCARDED"), is_resume=True)
    assert found[0] == ResumeStatusSeen(line_number=1, status=ResumeReport.RESUMED)
    assert found[1].reason == "this attempt has said RESUMED before"


def test_a_prefixed_message_is_told_once_and_never_obeyed():
    found, messages = events("[rank0]: openjd_checkpoint_save: {}\n" * 3)
    assert [type(event) for event in found] == [PrefixedSeen]
    assert messages.saves == 0


def test_unknown_keys_are_told_once_and_the_message_counts():
    found, _ = events('openjd_checkpoint_save: {"later": 1}\n' * 2)
    assert [type(event) for event in found] == [SaveAnnounced, KeysIgnored, SaveAnnounced]
    assert found[1].keys == ("later",)


def test_stock_messages_pass_through():
    found, _ = events("openjd_progress: 5\n")
    assert found == [StockSeen(line_number=1, message=Progress(percent=5.0))]


def test_refusals_are_told_up_to_a_limit_but_those_of_saves_always():
    text = (
        "openjd_progress: x\n" * (REFUSED_LIMIT + 5) + "openjd_checkpoint_save: x\nopenjd_env x\n"
    )
    found, messages = events(text)
    assert len(found) == REFUSED_LIMIT + 2
    assert "only counted" in found[REFUSED_LIMIT - 1].reason
    assert found[-2].save == 1
    assert found[-1].ends is Ends.ANY_ACTION
    assert messages.refused == REFUSED_LIMIT + 7
