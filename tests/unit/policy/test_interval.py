"""The advised interval, against the worked examples that were measured."""

import pytest

from perdure.policy.interval import SaveCosts, advise_interval

FOUR_HOURS = 4 * 3600.0


@pytest.mark.parametrize(
    ("blocked", "interval", "loss"), [(31.0, 945.0, 0.066), (2.0, 240.0, 0.017)]
)
def test_worked_examples(blocked, interval, loss):
    advice = advise_interval(
        SaveCosts(blocked_seconds=blocked), mean_seconds_between_interruptions=FOUR_HOURS
    )
    assert advice.interval_seconds == pytest.approx(interval, abs=1.0)
    assert advice.expected_loss == pytest.approx(loss, abs=0.001)


def test_never_faster_than_the_way_to_the_store():
    costs = SaveCosts(blocked_seconds=0.1, drain_seconds=500.0, restore_seconds=60.0)
    advice = advise_interval(costs, mean_seconds_between_interruptions=FOUR_HOURS)
    assert advice.interval_seconds == 500.0
    assert advice.expected_loss > 60.0 / FOUR_HOURS


def test_extremes():
    free = advise_interval(SaveCosts(blocked_seconds=0.0), mean_seconds_between_interruptions=1.0)
    assert free.interval_seconds == 1.0
    costly = advise_interval(SaveCosts(blocked_seconds=1e9), mean_seconds_between_interruptions=1.0)
    assert costly.expected_loss == 1.0


@pytest.mark.parametrize("mean", [0.0, -1.0, float("nan")])
def test_a_mean_that_is_none_is_refused(mean):
    with pytest.raises(ValueError, match="must be positive"):
        advise_interval(SaveCosts(blocked_seconds=1.0), mean_seconds_between_interruptions=mean)
