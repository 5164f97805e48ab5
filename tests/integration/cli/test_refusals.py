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


@pytest.mark.parametrize(
    ("line", "what", "next_step"),
    [
        (("staus",), "no such command 'staus'", "Did you mean 'status'? See: perdure --help"),
        (("xyz",), "no such command 'xyz'", "See: perdure --help"),
        (
            ("checkpoint", "shw"),
            "no such command 'shw'",
            "Did you mean 'show'? See: perdure checkpoint --help",
        ),
        (("run", "--on", "x"), "option '--on' requires 2 arguments", "See: perdure run --help"),
        (
            ("run",),
            "neither a template nor a command is given",
            "perdure run TEMPLATE; or: perdure run -- COMMAND [ARG]...",
        ),
        (
            ("run", "--preserv", "job.yaml"),
            "no such option '--preserv'",
            "Did you mean '--parameter', '--preserve'? See: perdure run --help",
        ),
        (
            ("run", "--files", "x", "job.yaml"),
            "invalid value for '--files': 'x' is not one of 'managed', 'shared', 'adopt'",
            "See: perdure run --help",
        ),
        (("rm", "--older", "7"), "--older 7: '7' is no age", "Write it like 30d or 12h."),
        (
            ("prune", "--keep-age", "0d"),
            "--keep-age 0d is no time at all",
            "Write it like 30d or 12h.",
        ),
        (
            ("prune", "--keep-size", "50Q"),
            "--keep-size 50Q: '50Q' is no size",
            "Write it like 500M or 2G.",
        ),
        (
            ("verify", "--read-data-subset", "10"),
            "--read-data-subset 10: of the whole, or bytes?",
            "Write 10% for a part, or 10M or 10G for a size.",
        ),
        (
            ("verify", "--read-data-subset", "200%"),
            "--read-data-subset 200% is no part of a whole",
            "Write it like 10%, or like 5G.",
        ),
    ],
)
def test_a_wrong_line_is_told_in_two_sentences(shell, line, what, next_step):
    assert said(shell, *line) == [f"perdure: {what}", f"  {next_step}"]


def test_a_wrong_line_is_told_to_programs_with_its_hint(shell):
    error = shell.json("verify", "--sed", "x", expect=2)["error"]
    assert error["kind"] == "usage"
    assert error["message"] == "no such option '--sed'"
    assert error["hint"].startswith("Did you mean '--seed'")


def test_a_home_that_is_no_folder_is_named(shell, tmp_path):
    (tmp_path / "file").touch()
    for command in (("status",), ("run", shell.template(QUICK))):
        lines = said(shell, *command, "--home", tmp_path / "file", expect=5)
        assert lines[0] == f"perdure: the home {tmp_path / 'file'} is no folder"
        assert "--home DIR" in lines[1]


def test_a_file_that_cannot_be_imported_is_told_with_what_to_do(suspended):
    lines = said(suspended, "checkpoint", "import", "last/Work", "nope.tar")
    assert lines == [
        "perdure: nope.tar cannot be read: No such file or directory",
        "  Name the file that `perdure checkpoint export` wrote.",
    ]


@pytest.mark.parametrize("command", ["run", "submit"])
def test_again_is_explained_as_the_page_has_it(shell, command):
    shown = " ".join(shell(command, "--help").stdout.split())
    assert "With --key: begin a new job if the last has ended." in shown
