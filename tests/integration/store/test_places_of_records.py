"""A record that stands where another one was written is damaged."""

import pytest

from clock_kit import HandClock
from perdure.errors import StoreDamaged
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.records.log import Log


def log(driver, prefix="a/log"):
    return Log(driver, prefix, clock=HandClock(), pause=lambda _tries: None)


def test_two_records_that_were_swapped_are_said(tmp_path):
    driver = MemoryDriver()
    writer = log(driver)
    for number in range(2):
        writer.append({"kind": "save", "number": number})
    held = driver.objects.held
    first, second = "a/log/0000000001", "a/log/0000000002"
    held[first], held[second] = held[second], held[first]
    with pytest.raises(StoreDamaged, match=rf"{first} is damaged.*written as {second}"):
        log(driver).read()
    with pytest.raises(StoreDamaged, match="written as"):
        log(driver).fetch(2)


def test_a_record_of_another_log_is_said(tmp_path):
    driver = MemoryDriver()
    log(driver, "b/log").append({"kind": "save"})
    driver.objects.held["a/log/0000000001"] = driver.objects.held["b/log/0000000001"]
    with pytest.raises(StoreDamaged, match="written as b/log"):
        log(driver).read()
