"""Flags, intervals, and signals that are given back."""

import signal

import pytest

from perdure.task import Checkpointer, checkpointer


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    fake = Clock()
    monkeypatch.setattr(checkpointer, "time", fake)
    return fake


def test_it_saves_every_interval(clock):
    saves = []
    saver = Checkpointer(lambda: saves.append(clock.now), interval_seconds=60)
    for now in (1000, 1059, 1060, 1100, 1119, 1121, 1300):
        clock.now = now
        saver.safe_point()
    assert saves == [1060, 1121, 1300]


@pytest.mark.parametrize(
    ("text", "interval"),
    [(None, 300), ("", 300), ("x", 300), ("0", 300), ("-1", 300), ("nan", 300), ("40", 40)],
)
def test_the_interval_is_the_advised_one(clock, monkeypatch, text, interval):
    monkeypatch.delenv("PERDURE_INTERVAL_SECONDS", raising=False)
    if text is not None:
        monkeypatch.setenv("PERDURE_INTERVAL_SECONDS", text)
    saves = []
    saver = Checkpointer(lambda: saves.append(1))
    clock.now += interval - 1
    saver.safe_point()
    assert saves == []
    clock.now += 1
    saver.safe_point()
    assert saves == [1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_sets_a_flag_and_the_safe_point_saves_and_leaves(number):
    saves = []
    with Checkpointer(lambda: saves.append(1), interval_seconds=1e9) as saver:
        saver.safe_point()
        signal.raise_signal(number)
        assert saver.is_asked
        assert saves == []
        with pytest.raises(SystemExit) as left:
            saver.safe_point()
    assert left.value.code == 75
    assert saves == [1]


def test_signals_are_given_back():
    def own(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGUSR2, own)
    try:
        with Checkpointer(lambda: None, signals=[signal.SIGUSR2], exit_code=9) as saver:
            signal.raise_signal(signal.SIGUSR2)
            with pytest.raises(SystemExit, match="9"):
                saver.safe_point()
        assert signal.getsignal(signal.SIGUSR2) is own
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_signal_that_cannot_be_taken_leaves_the_others_as_they_were():
    before = signal.getsignal(signal.SIGUSR2)
    with (
        pytest.raises(OSError, match="Invalid argument"),
        Checkpointer(lambda: None, signals=[signal.SIGUSR2, signal.SIGKILL]),
    ):
        pass
    assert signal.getsignal(signal.SIGUSR2) is before


def test_the_signal_that_asks_to_save_and_go_on(monkeypatch):
    """What asks while it saves is answered by that save: a slow one would never end."""
    monkeypatch.setenv("PERDURE_SAVE_SIGNAL", "SIGUSR2")
    saves = []

    def save():
        saves.append(1)
        signal.raise_signal(signal.SIGUSR2)

    with Checkpointer(save, interval_seconds=1e9) as saver:
        saver.safe_point()
        assert saves == []
        signal.raise_signal(signal.SIGUSR2)
        for _ in range(3):
            saver.safe_point()
        assert saves == [1]
        assert not saver.is_asked
