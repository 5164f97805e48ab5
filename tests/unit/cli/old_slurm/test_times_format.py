"""The six formats of a time, and what is none."""

import pytest

from perdure.cli.old_slurm.times_format import parse_minutes


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("5", 5),
        ("0", 0),
        ("5:00", 5),
        ("5:01", 6),
        ("0:30", 1),
        ("1:00:00", 60),
        ("1:02:03", 63),
        ("2-3", 2 * 1440 + 180),
        ("1-2:03", 1440 + 123),
        ("1-2:03:04", 1440 + 124),
        ("0-0:0:59", 1),
        ("UNLIMITED", 0),
        ("infinite", 0),
        ("-1", 0),
    ],
)
def test_what_is_a_time(text, minutes):
    assert parse_minutes(text) == minutes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "5m",
        "1.5",
        "-5",
        "1:2:3:4",
        "1-",
        "-",
        "1-2-3",
        "1-2:3:4:5",
        "5 ",
        "\u0663",
        ":5",
        "5:",
    ],
)
def test_what_is_none(text):
    assert parse_minutes(text) is None
