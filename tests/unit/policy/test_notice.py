"""The notice period: every way it is cut."""

from datetime import timedelta

import pytest

from perdure.policy.notice import Capturing, plan_notice


def s(seconds):
    return timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("template", "left", "capturing", "period", "fits"),
    [
        (120, None, Capturing(), 120, True),
        (120, None, Capturing(learned=s(900)), 120, True),
        (120, 1000, Capturing(learned=s(10)), 120, True),
        (120, 135, Capturing(learned=s(10)), 120, True),
        (120, 134, Capturing(learned=s(10)), 119, True),
        (120, 60, Capturing(learned=s(10)), 45, True),
        (120, 15, Capturing(learned=s(10)), 0, True),
        (120, 14, Capturing(learned=s(10)), 0, False),
        (120, 60, Capturing(), 54, True),
        (120, 60, Capturing(declared_bytes=10**9), 54, True),
        (120, 60, Capturing(declared_bytes=2000, bandwidth_bytes_per_second=100.0), 35, True),
        (120, 60, Capturing(declared_bytes=10, bandwidth_bytes_per_second=100.0), 54, True),
        (120, 60, Capturing(declared_bytes=10**18, bandwidth_bytes_per_second=0.001), 25, True),
        (120, 8, Capturing(), 2, True),
        (120, 1, Capturing(), 0, False),
        (120, 0, Capturing(), 0, False),
        (120, -5, Capturing(), 0, False),
        (0, 1000, Capturing(), 0, True),
    ],
)
def test_the_notice_is_cut_not_the_commit(template, left, capturing, period, fits):
    plan = plan_notice(
        s(template), time_left=None if left is None else s(left), capturing=capturing
    )
    assert (plan.period, plan.fits) == (s(period), fits)
    assert plan.is_shortened == (period < template)
    assert bool(plan.reason) == plan.is_shortened


def test_the_reason_names_the_figures():
    plan = plan_notice(s(120), time_left=s(60), capturing=Capturing(learned=s(10)))
    assert plan.reason == (
        "the notice period is 45 s instead of 120 s: 60 s are left, 15 s of them are kept for the"
        " commit"
    )
