"""What a command says that cannot do what was asked: what is wrong, and what to do next."""

import pytest

QUICK = """
specificationVersion: jobtemplate-2023-09
name: Quick
steps:
- name: Step
  script:
    actions:
      onRun: {command: "true"}
"""


def said(shell, *arguments, expect=2):
    """The lines on standard error, which hold no traceback and no raw error number."""
    done = shell(*arguments, expect=expect)
    assert "Traceback" not in done.stderr
    assert "Errno" not in done.stderr
    return done.stderr.splitlines()


@pytest.mark.parametrize("command", ["run", "submit"])
@pytest.mark.parametrize("folder", ["/proc/nope", "{file}/below", "{file}"])
def test_a_local_store_that_cannot_be_used_is_refused_at_submit(shell, tmp_path, command, folder):
    (tmp_path / "file").write_text("no folder")
    place = folder.format(file=tmp_path / "file")
    lines = said(shell, command, shell.template(QUICK), "--local-store", place)
    assert lines[0].startswith(f"perdure: --local-store {place} cannot be used: ")
    assert "Name a folder" in lines[1]
    assert shell.json("status")["jobs"] == []


def test_options_that_a_key_s_job_does_not_take_up_are_named_at_submit_too(shell):
    line = ("submit", shell.template(QUICK), "--key", "k")
    job = shell(*line).stdout.strip()
    lines = said(shell, *line, "--workers", "2", expect=0)
    assert lines[0].endswith("--workers stays 1 (given now: 2)")
    assert f"perdure cancel {job}" in lines[1]
    shell("wait", "last")
