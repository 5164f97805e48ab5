"""Options of a later line that have no effect: each is named, with both values and a way out."""

import pytest
from msgspec.structs import replace

from perdure.cli.kept_options import _NOT_KEPT, kept_options
from perdure.policy.memory_growth import MemoryGrowth
from perdure.store.layout import JobId
from perdure.store.records.job_document import JobDocument, Options, Text

KEPT = JobDocument(
    job=JobId("0" * 26),
    name="Job",
    template=Text(name="t", text=""),
    template_dir="/",
    current_dir="/",
)
#: Another value of every option, and what is said of it.
OTHERS = {
    "workers": (2, "--workers stays 1 (given now: 2)"),
    "files": ("adopt", "--files stays managed (given now: adopt)"),
    "deliver": ("/there", "--deliver stays nothing (given now: /there)"),
    "allow_roots": (("/a", "/b"), "--allow-root stays nothing (given now: /a, /b)"),
    "append": (("/a/*",), "--append stays nothing (given now: /a/*)"),
    "notice": ("none", "--notice stays auto (given now: none)"),
    "heartbeat_seconds": (1.5, "--heartbeat-seconds stays 10 s (given now: 1.5 s)"),
    "preserve": (True, "--preserve stays off (given now: on)"),
    "log_limit_bytes": (1 << 20, "--log-limit stays 1.0 GiB (given now: 1.0 MiB)"),
    "limits": ({"per_point": 5}, "--limit stays nothing (given now: per_point=5)"),
    "step_limits": (
        {"S": {"per_point": 5}},
        "--limit stays nothing (given now: S:per_point=5)",
    ),
    "keep_last": (7, "--keep-last stays 3 (given now: 7)"),
    "keep_age_seconds": (60, "--keep-age stays nothing (given now: 60 s)"),
    "keep_size_bytes": (1 << 30, "--keep-size stays nothing (given now: 1.0 GiB)"),
    "max_pack_age_seconds": (60, "--max-pack-age stays nothing (given now: 60 s)"),
    "hooks": ({"save": ("a", "b")}, "--on stays nothing (given now: save=a, b)"),
    "temporary_dir": ("/fast", "--sessions-dir stays nothing (given now: /fast)"),
    "key_file": ("/key", "--encrypt stays nothing (given now: /key)"),
    "engine": ("slurm", "--engine stays local (given now: slurm)"),
    "lsf": (("-q", "long"), "--lsf stays nothing (given now: -q long)"),
    "slurm": (("-p", "long"), "--slurm stays nothing (given now: -p long)"),
    "restart_args": (("-c", "a b"), "--restart-args stays nothing (given now: -c 'a b')"),
    "restart_cmd": (("./again",), "--restart-cmd stays nothing (given now: ./again)"),
    "save_signal": ("SIGHUP", "--save-signal stays SIGUSR2 (given now: SIGHUP)"),
    "save_every_seconds": (60, "--save-every stays nothing (given now: 60 s)"),
    "memory_growth": (
        MemoryGrowth(factor=1.5, most_mib=2048),
        "--memory-growth stays nothing (given now: 1.5:2048M)",
    ),
    "local_store": ("/fast", "--local-store stays nothing (given now: /fast)"),
    "image_dir": ("/images", "--checkpoint-dir stays nothing (given now: /images)"),
}


def test_every_option_is_looked_at():
    assert set(OTHERS) | _NOT_KEPT == set(Options.__struct_fields__)


@pytest.mark.parametrize("name", OTHERS)
def test_an_option_that_has_no_effect_is_named_with_both_values(name):
    value, text = OTHERS[name]
    given = replace(KEPT, options=replace(KEPT.options, **{name: value}))
    what, way_out = kept_options(given, KEPT)
    assert what == f"job {KEPT.job} keeps the options that it was submitted with: {text}"
    assert f"perdure cancel {KEPT.job}" in way_out
    assert "then the same line; or leave it and give the line with a --key of its own" in way_out


def test_the_job_of_a_key_is_left_with_another_key_or_again():
    given = replace(KEPT, key="k", options=replace(KEPT.options, workers=2))
    _what, way_out = kept_options(given, replace(KEPT, key="k"))
    assert "the same line with --again; or leave it and give the line with another --key" in way_out


def test_what_is_the_same_or_may_be_said_anew_is_not_named():
    assert list(kept_options(KEPT, KEPT)) == []
    given = replace(KEPT, options=replace(KEPT.options, on_conflict="keep"))
    assert list(kept_options(given, KEPT)) == []


def test_another_name_and_other_rules_are_named():
    given = replace(KEPT, name="Other", path_mapping=({"source": "/a"},))
    what, _way_out = kept_options(given, KEPT)
    assert "--name stays Job (given now: Other); --path-mapping-rules has other rules now" in what
