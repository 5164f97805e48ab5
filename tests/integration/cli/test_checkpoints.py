"""The commands about checkpoints, on real ones."""

import shutil
import tarfile
from pathlib import Path

import pytest

NAME = "last/Work[Frame=12]"


@pytest.fixture
def copied(suspended, shell):
    """The suspended job in a store of the test's own, which it may change."""
    shutil.copytree(suspended.store, shell.store, symlinks=True)
    shell.job = suspended.job
    shell.outside = suspended.folder / "outside"
    return shell


def flip(store, pattern):
    """One bit of the only file that matches; it is told which."""
    (path,) = sorted(store.glob(pattern))[-1:]
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if "packs" not in str(path) else 4096 + 5] ^= 1
    path.write_bytes(data)
    return path


def test_the_list_names_each_one_as_other_commands_take_it(suspended):
    found = suspended.json("checkpoints", "last")["checkpoints"]
    assert [row["sequence"] for row in found] == [1, 2, 3]
    assert found[-1]["name"] == f"{suspended.job}/Work[Frame=12]@3"
    assert [row["point"] for row in found] == [False, False, True]
    assert suspended.json("checkpoint", "show", found[0]["name"])["state"] == "step 1"
    text = suspended("checkpoints", "last", "--task", "Work[Frame=12]").stdout
    assert "step 2" in text
    assert "next" in text


def test_without_a_number_it_is_what_the_next_attempt_starts_from(suspended):
    shown = suspended.json("checkpoint", "show", NAME)
    assert (shown["sequence"], shown["point"], shown["file"]) == (3, True, "run/data.bin")
    assert "step 3" in suspended("checkpoint", "show", NAME).stdout


def test_files_are_listed_by_where_they_belong(suspended):
    found = {
        row["path"]: row for row in suspended.json("checkpoint", "files", f"{NAME}@2")["files"]
    }
    assert found["run/data.bin"]["where"] == "session"
    assert found["run/data.bin"]["size_bytes"] == 1000
    assert found[str(suspended.folder / "outside/result.txt")]["where"] == "outside"
    assert "run/data.bin" in suspended("checkpoint", "files", f"{NAME}@2").stdout


def test_diff_says_what_changed(suspended):
    found = suspended.json("checkpoint", "diff", f"{NAME}@3", "@1")
    assert found["state_changed"]
    assert {"change": "changed", "path": "run/data.bin"} in found["files"]
    assert "changed  run/data.bin" in suspended("checkpoint", "diff", f"{NAME}@3").stdout
    same = suspended("checkpoint", "diff", f"{NAME}@3", f"{NAME}@3").stdout
    assert same == "Nothing changed.\n"


def test_restore_gives_plain_files_and_prints_the_state(suspended, tmp_path):
    folder = tmp_path / "out"
    done = suspended("checkpoint", "restore", f"{NAME}@2", "--to", folder)
    assert done.stdout == "step 2\n"
    assert (folder / "run/data.bin").read_bytes() == b"2" * 1000
    outside = f"outside{suspended.folder}/outside/result.txt"
    assert (folder / outside).read_text() == "result 2"


def test_restore_goes_on_where_one_was_killed(suspended, tmp_path):
    folder = tmp_path / "restored"
    (folder / f".perdure-{'0' * 32}").mkdir(parents=True)
    suspended("checkpoint", "restore", f"{NAME}@2", "--to", folder)
    assert (folder / "run" / "data.bin").exists()


def test_restore_overwrites_nothing(suspended, tmp_path):
    (tmp_path / "mine").write_text("mine")
    done = suspended("checkpoint", "restore", NAME, "--to", tmp_path, expect=2)
    assert "is not empty" in done.stderr
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("command", ["restore", "export"])
def test_nothing_of_the_users_is_written_into_the_store(suspended, command):
    place = suspended.store / "jobs" / "mine"
    arguments = ["--to", place] if command == "restore" else [place]
    done = suspended("checkpoint", command, NAME, *arguments, expect=2)
    assert "lies in the store" in done.stderr
    assert not place.exists()


def test_a_flipped_bit_is_found_and_named(copied, tmp_path):
    flip(copied.store, "lineages/*/0001/*/packs/*-3")
    damaged = copied.json("checkpoint", "verify", NAME, expect=3)["damaged"]
    assert [one["path"] for one in damaged]
    copied("checkpoint", "verify", f"{NAME}@1")
    folder = tmp_path / "out"
    done = copied("checkpoint", "restore", NAME, "--to", folder, expect=3)
    assert "not what was written" in done.stderr
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_pins_are_recorded_once(copied):
    assert copied.json("checkpoint", "pin", f"{NAME}@1")["changed"]
    assert not copied.json("checkpoint", "pin", f"{NAME}@1")["changed"]
    assert [c["pinned"] for c in copied.json("checkpoints", "last")["checkpoints"]] == [
        True,
        False,
        False,
    ]
    copied("checkpoint", "unpin", f"{NAME}@1")
    pinned = [c["pinned"] for c in copied.json("checkpoints", "last")["checkpoints"]]
    assert pinned == [False] * 3
    records = copied.json("status", "last")["attempts"][0]["checkpoints"]
    assert not any(record["pinned"] for record in records)


def test_an_exported_checkpoint_goes_on_in_another_store(suspended, shell, tmp_path):
    path = tmp_path / "checkpoint.tar"
    suspended("checkpoint", "export", f"{NAME}@2", path)
    with tarfile.open(path) as tar:
        assert "files/session/run/data.bin" in tar.getnames()
    from_conftest = suspended.work / "job.yaml"
    outside = shell.folder / "outside"
    outside.mkdir()
    job = shell.suspended(from_conftest.read_text(), "-p", f"Folder={outside}")
    done = shell.json("checkpoint", "import", NAME, path)
    assert len(done["left_out"]) == 1
    shown = shell.json("checkpoint", "show", NAME)
    assert (shown["sequence"], shown["imported"], shown["state"]) == (
        done["sequence"],
        True,
        "step 2",
    )
    resumed = shell("resume", job)
    assert "resumed from step 2" in resumed.stdout
    attempt = shell.json("status", "last")["attempts"][-1]
    assert (attempt["resumed_from"], attempt["resume_status"]) == (done["sequence"], "RESUMED")


def test_what_is_exported_is_not_overwritten(suspended, tmp_path):
    path = tmp_path / "there"
    path.write_text("mine")
    assert "is there already" in suspended("checkpoint", "export", NAME, path, expect=2).stderr
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_damaged_record_makes_one_sentence_and_repair_sets_it_aside(copied):
    path = flip(copied.store, "lineages/*/0001/*/log/0000000003")
    bytes_before = path.read_bytes()
    assert "is damaged" in copied("checkpoints", "last", expect=8).stderr
    found = copied.json("verify", expect=8)["damaged"]
    assert [one["kind"] for one in found] == ["record"]
    repaired = copied.json("repair")["damaged"]
    (aside,) = [one["aside"] for one in repaired]
    assert Path(aside).read_bytes() == bytes_before
    assert [c["sequence"] for c in copied.json("checkpoints", "last")["checkpoints"]] == [1, 2]
    copied("verify")
    # Copies of the job that other tests went on with have put their file there.
    assert "resumed from step 2" in copied("resume", "last", "--overwrite").stdout


def test_repair_leaves_alone_what_it_cannot_mend(copied):
    path = flip(copied.store, "jobs/*/job")
    before = path.read_bytes()
    (row,) = copied.json("repair", expect=8)["damaged"]
    assert row["aside"] is None
    assert path.read_bytes() == before
    assert copied.json("verify", expect=8)["damaged"][0]["key"].endswith("/job")


def test_a_lost_share_is_known_by_what_was_begun_of_it(copied):
    """It says which tasks a worker had, and nothing of what they saved."""
    flip(copied.store, "jobs/*/shares/0001/0000000001")
    (row,) = copied.json("repair")["damaged"]
    assert row["mended"]
    assert copied.json("verify")["damaged"] == []
    assert "resumed from step 3" in copied("resume", "last").stdout
    assert [a["resumed_from"] for a in copied.json("status", "last")["attempts"]] == [None, 3]


def test_a_missing_record_hides_nothing_that_stands_behind_it(copied):
    (path,) = copied.store.glob("lineages/*/0001/*/log/0000000002")
    path.unlink()
    (found,) = copied.json("verify", expect=8)["damaged"]
    assert (found["kind"], found["key"][-10:]) == ("missing", "0000000002")
    for command in (["checkpoints", "last"], ["resume", "last"], ["prune", "last"]):
        assert "is missing, and later ones are there" in copied(*command, expect=8).stderr
    (row,) = copied.json("repair")["damaged"]
    assert (row["mended"], row["aside"]) == (True, None)
    assert [c["sequence"] for c in copied.json("checkpoints", "last")["checkpoints"]] == [1, 3]
    copied("verify")
    assert "resumed from step 3" in copied("resume", "last", "--overwrite").stdout


@pytest.mark.parametrize("numbers", [[1], [1, 2]])
def test_records_that_a_purge_took_first_begin_nothing_anew(copied, numbers):
    for number in numbers:
        (path,) = copied.store.glob(f"lineages/*/0001/*/log/{number:010}")
        path.unlink()
    assert "later ones are there" in copied("resume", "last", expect=8).stderr
    copied("repair")
    assert "resumed from step 3" in copied("resume", "last", "--overwrite").stdout


def test_a_missing_record_of_the_job_is_said(copied):
    (path,) = copied.store.glob("jobs/*/log/0000000002")
    path.unlink()
    assert "later ones are there" in copied("resume", "last", expect=8).stderr


def test_a_task_whose_share_is_gone_goes_on_from_its_newest_checkpoint(copied):
    """Nothing shows that there was one but what the task saved."""
    next(copied.store.glob("jobs/*/shares/0001/0000000001")).unlink()
    assert "resumed from step 3" in copied("resume", "last").stdout
