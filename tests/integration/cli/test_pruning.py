"""``perdure prune``, and what is left over of earlier prunes."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from perdure.clock import to_text
from perdure.store.opening import open_store
from perdure.store.records.record_format import decode_record, encode_record
from support.command_line import wait_until

SAVING_AND_WAITING = """
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Waiting
steps:
- name: Only
  script:
    actions:
      onRun: {command: bash, args: ["{{Task.File.Work}}"]}
      onCheckpointResume: {command: "true"}
    embeddedFiles:
    - name: Work
      filename: work.sh
      type: TEXT
      data: |
        for n in 1 2; do
          echo "openjd_checkpoint_save: {\\"state\\": \\"$n\\"}"
          until grep -q "\\"save\\": $n" "$PERDURE_COMMIT_FILE" 2>/dev/null; do sleep 0.01; done
        done
        echo committed 2
        sleep 600
"""


@pytest.fixture
def resting(suspended, shell):
    """A suspended job of the test's own with checkpoints 1, 2 and 3."""
    shutil.copytree(suspended.store, shell.store)
    shell.job = suspended.job
    return shell


def packs(shell):
    return sorted(path.name[-1] for path in shell.store.glob("lineages/*/*/*/packs/*"))


def kept(shell):
    rows = shell.json("checkpoints", "last")["checkpoints"]
    return [row["sequence"] for row in rows if not row["pruned"]]


def age_records(shell, kind):
    """As if all records of that kind had been put two minutes ago."""
    driver = open_store(str(shell.store), write=True).driver
    at = to_text(datetime.now(UTC) - timedelta(minutes=2))
    for key in list(driver.list("lineages")):
        if "/log/" in key:
            record = decode_record(driver.get(key), key=key)
            if record.kind == kind:
                driver.put(key, encode_record({**record.header, "at": at}, record.payload))


def test_by_its_own_rules_there_is_nothing_to_prune(resting):
    found = resting.json("prune", "last")
    assert [row["checkpoints"] for row in found["tasks"]] == [[]]
    assert "0 B are freed" in resting("prune").stdout
    assert "Whatever the rules, these stay" in resting("prune", "--keep-size", "100G").stdout
    assert "these stay" not in resting("prune", "--keep-last", "1", "--dry-run").stdout
    assert packs(resting) == ["1", "2", "3"]


def test_the_record_comes_first_and_the_data_goes_when_its_grace_is_over(resting):
    before = resting.json("du")["jobs"][0]["checkpoint_bytes"]
    found = resting.json("prune", "last", "--keep-last", "1")
    (row,) = found["tasks"]
    assert (row["checkpoints"], row["freed_bytes"], row["held_by"]) == ([1, 2], 0, None)
    assert found["waiting_bytes"] > 0
    assert (packs(resting), kept(resting)) == (["1", "2", "3"], [3])
    assert resting.json("du")["jobs"][0]["waiting_bytes"] == found["waiting_bytes"]
    assert "of it are of pruned checkpoints" in resting("du").stdout
    assert "--now" in resting("prune", "last", "--keep-last", "1").stdout
    age_records(resting, "prune")
    later = resting.json("prune", "last")
    assert later["freed_bytes"] == found["waiting_bytes"]
    assert later["waiting_bytes"] == 0
    assert packs(resting) == ["3"]
    assert resting.json("du")["jobs"][0]["waiting_bytes"] == 0
    assert resting.json("du")["jobs"][0]["checkpoint_bytes"] == before - later["freed_bytes"]
    assert resting.json("verify")["damaged"] == []


def test_now_deletes_at_once(resting):
    assert resting.json("prune", "--keep-last", "1", "--now")["freed_bytes"] > 0
    assert (packs(resting), kept(resting)) == (["3"], [3])


def test_repair_collects_what_was_left_over(resting):
    resting("prune", "last", "--keep-last", "1")
    assert resting.json("repair")["packs_removed"] == 0
    assert packs(resting) == ["1", "2", "3"]
    age_records(resting, "prune")
    assert resting.json("repair")["packs_removed"] == 2
    assert packs(resting) == ["3"]


def test_a_dry_run_tells_the_same_and_changes_nothing(resting):
    before = {p: p.read_bytes() for p in resting.store.rglob("*") if p.is_file()}
    told = resting.json("prune", "last", "--keep-last", "1", "--now", "--dry-run")
    assert {p: p.read_bytes() for p in resting.store.rglob("*") if p.is_file()} == before
    done = resting.json("prune", "last", "--keep-last", "1", "--now")
    assert told["dry_run"]
    assert told["tasks"] == done["tasks"]


def test_what_is_pinned_stays(resting):
    resting("checkpoint", "pin", "last/Work@1")
    resting("prune", "last", "--keep-last", "1", "--now")
    assert (packs(resting), kept(resting)) == (["1", "3"], [1, 3])


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        (("--keep-last", "2"), [2, 3]),
        (("--keep-last", "1", "--keep-age", "1d"), [1, 2, 3]),
        (("--keep-last", "1", "--keep-age", "1s"), [3]),
        (("--keep-size", "1"), [3]),
        (("--keep-size", "1G"), [1, 2, 3]),
    ],
)
def test_rules_of_the_command_line(resting, rule, left):
    age_records(resting, "save")
    resting("prune", "last", *rule)
    assert kept(resting) == left


def test_it_is_no_attempt_and_the_job_goes_on_as_before(resting):
    shown = {name: resting.json(name, "last") for name in ("status", "why")}
    resting("prune", "last", "--keep-last", "1", "--now")
    after = {name: resting.json(name, "last") for name in ("status", "why")}
    for found in (shown["status"], after["status"]):
        for attempt in found["attempts"]:
            for checkpoint in attempt["checkpoints"]:
                checkpoint.pop("pruned")
    assert after == shown
    # Copies of the job that other tests went on with have put their file there.
    assert "resumed from step 3" in resting("resume", "last", "--overwrite").stdout
    attempts = resting.json("status", "last")["attempts"]
    assert [(one["number"], one["resumed_from"]) for one in attempts] == [(1, None), (2, 3)]
    assert resting.json("prune", "last", "--keep-last", "1")["tasks"][0]["held_by"] is None
    (left,) = [c for c in resting.json("checkpoints", "last")["checkpoints"] if not c["pruned"]]
    assert left["point"] is False  # what succeeded has no next attempt
    assert resting.json("checkpoint", "show", left["name"])["point"] is False


def test_what_a_worker_holds_is_left_to_it(shell):
    shell("submit", shell.template(SAVING_AND_WAITING))
    job = shell.json("status", "last")["job"]

    def has_saved():
        return len(shell.json("checkpoints", job)["checkpoints"]) == 2

    wait_until(has_saved, "it does not save")
    (launch,) = {one["launch"] for one in shell.json("status", job)["attempts"]}
    found = shell.json("prune", job, "--keep-last", "1", "--now", expect=6)
    assert [row["held_by"] for row in found["tasks"]] == [launch]
    assert shell.json("prune", "--keep-last", "1", "--dry-run")["tasks"][0]["held_by"] == launch
    assert kept(shell) == [1, 2]
    assert "a worker holds it" in shell("prune").stdout
    shell.kill_all()
    found = shell.json("prune", job, "--keep-last", "1", "--now")
    assert [row["checkpoints"] for row in found["tasks"]] == [[1]]
    assert kept(shell) == [2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--task", "Work"), "needs a JOB"),
        (("--keep-age", "soon"), "no age"),
        (("--keep-age", "0d"), "no time at all"),
        (("--keep-age", "9" * 40 + "d"), "longer than there is time"),
        (("--keep-size", "much"), "no size"),
    ],
)
def test_rules_that_cannot_be_read_are_said(resting, arguments, says):
    assert says in resting("prune", *arguments, expect=2).stderr


SHORT = """
specificationVersion: jobtemplate-2023-09
name: Short
steps:
- {name: Only, script: {actions: {onRun: {command: "true"}}}}
"""


def test_a_jobs_own_rules_are_shown(resting, shell):
    rules = ("--keep-last", "2", "--keep-age", "36h", "--keep-size", "5G", "--max-pack-age", "20d")
    shell("run", shell.template(SHORT), *rules)
    assert shell.json("status", "last")["retention"] == {
        "keep_last": 2,
        "keep_age_seconds": 129_600,
        "keep_size_bytes": 5 << 30,
        "max_pack_age_seconds": 1_728_000,
    }
    assert shell.json("status", resting.job)["retention"]["keep_age_seconds"] is None
    said = resting("checkpoints", resting.job).stdout
    assert (
        "Of each task the last 3 are kept; while there is room, also the last one of each" in said
    )


@pytest.mark.parametrize("option", ["--keep-age", "--keep-size", "--max-pack-age"])
def test_a_rule_that_is_none_is_refused_before_anything_is_made(shell, option):
    assert "is no" in shell("run", shell.template(SHORT), option, "x", expect=2).stderr
    assert not shell.store.exists()


def test_a_store_for_a_group_is_made_once(shell, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    project.chmod(0o2775)
    template, store = shell.template(SHORT), ("--store", project / "jobs")
    shell("run", template, *store, "--share", "group")
    modes = {path.stat().st_mode & 0o7777 for path in (project / "jobs").rglob("*")}
    assert modes == {0o2770, 0o660}
    shell("submit", template, *store, "--share", "group")
    shell("wait", "last", *store)
    made = {path.stat().st_mode & 0o7777 for path in (project / "jobs").rglob("*")}
    assert made == {0o2770, 0o660}


def test_a_private_store_stays_so_and_that_is_said(shell):
    template = shell.template(SHORT)
    shell("run", template)
    said = shell("run", template, "--share", "group").stderr
    assert "its owner's alone, and stays so" in said
    assert shell.store.stat().st_mode & 0o7777 == 0o700


def test_the_home_is_no_place_for_a_group(shell):
    found = shell("run", shell.template(SHORT), "--share", "group", expect=5)
    assert "nobody but its owner gets into" in found.stderr
