"""``--encrypt KEYFILE``: a job whose checkpoints only its key can read, from command to command."""

import os
from pathlib import Path

SIMULATION = Path(__file__).parents[2] / "examples" / "simulation.yaml"


def test_a_job_goes_on_only_with_its_key(perdure, tmp_path):
    key = perdure.work / "key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(32))
    output = perdure.work / "out"
    line = ["run", SIMULATION, "-p", f"Output={output}", "-p", "SaveEvery=10"]
    perdure.suspended_at("checkpoint_save", *line, "--encrypt", key)
    perdure("checkpoint", "verify", "last/Simulate")
    exported = perdure("checkpoint", "export", "last/Simulate", tmp_path / "exported")
    assert "it is not encrypted there" in exported.stderr
    perdure("submit", *line[1:], "--key", "plain")
    perdure("suspend", "plain", "--now")
    perdure("wait", "plain", expect=75)
    perdure("checkpoint", "import", "plain/Simulate", tmp_path / "exported")
    perdure("rm", "plain", "--yes")

    away = key.rename(perdure.work / "away")
    before = perdure.json("status", "last")
    said = perdure("verify").stdout
    assert "All that was read is what was written." in said
    assert "All of it" not in said
    said = perdure("resume", "last", expect=2).stderr
    assert f"the key file {key} cannot be read" in said
    assert "PERDURE_KEY_FILE=FILE" in said
    assert "Make one" not in said  # a new key would be the wrong one
    other = perdure.work / "other"
    other.touch(mode=0o600)
    other.write_bytes(os.urandom(32))
    perdure.environment["PERDURE_KEY_FILE"] = str(other)
    said = perdure("checkpoint", "verify", "last/Simulate", expect=3).stderr
    assert "is encrypted with key" in said
    for command in (["resume", "last"], [*line, "--encrypt", key]):
        assert "is encrypted with key" in perdure(*command, expect=3).stderr
    del perdure.environment["PERDURE_KEY_FILE"]
    assert perdure.json("status", "last") == before  # nothing was tried, nothing is changed

    perdure.environment["PERDURE_KEY_FILE"] = str(away)
    perdure("checkpoint", "import", "last/Simulate", tmp_path / "exported")
    perdure("resume", "last")
    assert output.stat().st_size > 0


def test_a_new_job_takes_over_encrypted_checkpoints(perdure):
    key = perdure.work / "key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(32))
    line = ["run", SIMULATION, "-p", f"Output={perdure.work / 'out'}", "-p", "SaveEvery=10"]
    perdure.suspended_at("checkpoint_save", *line, "--encrypt", key)
    said = perdure("resume", "last", "--as", "new").stderr
    assert "goes on from checkpoint" in said
    perdure("checkpoint", "verify", "last/Simulate")


def test_a_key_that_is_none_is_refused_before_anything_is_made(perdure):
    (perdure.work / "key").write_text("short")
    (perdure.work / "key").chmod(0o600)
    said = perdure("run", SIMULATION, "-p", "Output=out", "--encrypt", "key", expect=2).stderr
    assert "holds no key" in said
    assert not (perdure.folder / "store").exists()
