"""What LSF tells its checkpoint programs, and what workers tell them."""

from pathlib import Path

import pytest

from perdure.cli.lsf_checkpoint import read_echkpnt, read_erestart
from perdure.engines.lsf.checkpoint_notes import CheckpointNote, leave_note, read_notes
from perdure.errors import UsageError

NOTE = CheckpointNote(store="/s", job="j", launch="l1", token="ab-1", engine="lsf", index="1")


@pytest.mark.parametrize(
    ("words", "kills", "folder"),
    [
        (["-d", "/chk/7", "123"], False, "/chk/7"),
        (["-c", "-f", "-k", "-d", "/chk/7", "-x", "123"], True, "/chk/7"),
        (["-k", "123"], True, "/from/environment"),
        (["123"], False, "/from/environment"),
        (["-d"], False, "/from/environment"),
    ],
)
def test_what_is_asked(words, kills, folder):
    asked = read_echkpnt(words, {"LSB_CHKPNT_DIR": "/from/environment"})
    assert (asked.kills, asked.folder) == (kills, Path(folder))


def test_without_a_folder_nothing_is_saved():
    with pytest.raises(UsageError, match="not told where"):
        read_echkpnt(["123"], {})


@pytest.mark.parametrize("words", [["/chk/8"], ["-c", "-f", "/chk/8"]])
def test_what_is_started_again(words):
    assert read_erestart(words) == Path("/chk/8")


@pytest.mark.parametrize("words", [[], ["-f"]])
def test_nothing_is_started_again_without_a_folder(words):
    with pytest.raises(UsageError, match="folder"):
        read_erestart(words)


def test_notes_are_read_back_the_oldest_launch_first(tmp_path):
    folder = tmp_path / "chk" / "7"
    for launch in ("l2", "l1"):
        note = CheckpointNote(
            store="/s", job="j", launch=launch, token="ab-1", engine="lsf", index="1"
        )
        assert leave_note(note, {"LSB_CHKPNT_DIR": str(folder)}) == ""
    assert [note.launch for note in read_notes(folder)] == ["l1", "l2"]
    assert read_notes(folder)[0] == NOTE


@pytest.mark.parametrize("text", ["", "{", "[]", '{"store": 1}'])
def test_what_is_no_note_is_passed_over(tmp_path, text):
    (tmp_path / "perdure.l0").write_text(text)
    assert leave_note(NOTE, {"LSB_CHKPNT_DIR": str(tmp_path)}) == ""
    assert read_notes(tmp_path) == (NOTE,)


def test_a_note_of_a_later_format_is_passed_over(tmp_path):
    leave_note(NOTE, {"LSB_CHKPNT_DIR": str(tmp_path)})
    path = tmp_path / "perdure.l1"
    path.write_text(path.read_text().replace('"format":1', '"format":2'))
    assert read_notes(tmp_path) == ()


def test_a_job_without_checkpoints_gets_no_note(tmp_path):
    assert leave_note(NOTE, {}) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    said = leave_note(NOTE, {"LSB_CHKPNT_DIR": str(tmp_path / "file" / "7")})
    assert "bchkpnt will not find this worker" in said
