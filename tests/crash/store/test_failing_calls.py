"""Every call that can fail does, one after the other, on a real folder; see the support module."""

import contextlib

import pytest

from perdure.store.drivers import posix, posix_upload
from support.broken_drivers import CallsFailedSyncsSuccesses, WritesOnce, making_a_store
from support.failing_calls import Way, every_call
from support.lineage_life import LARGE

#: Ways that nearly all calls can fail in, or that fail alike: a sample here, all in `make soak`.
STRIDES = {Way.EIO: 4, Way.EDQUOT: 3, Way.FULL: 2, Way.EMFILE: 2}


@pytest.mark.parametrize("way", Way)
def test_nothing_is_lost_whichever_call_fails(tmp_path, way):
    counts = every_call(tmp_path, way, stride=STRIDES.get(way, 1))
    print(f"{way.value}: {counts}")
    assert counts.clean == 1
    assert counts.passes > 10
    assert counts.injected >= counts.passes - 1
    assert counts.refused or way in (Way.SHORT, Way.CLOSE_EDQUOT)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("way", STRIDES)
def test_nothing_is_lost_whichever_of_all_calls_fails(tmp_path, way):
    print(f"{way.value}, all calls: {every_call(tmp_path, way)}")


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("way", Way)
def test_nothing_is_lost_of_a_file_of_several_blocks(tmp_path, way):
    print(f"{way.value}, two blocks: {every_call(tmp_path, way, sizes=LARGE)}")


class TestTheHarnessCanFail:
    """Each mutation breaks one promise of the store; the passes must find it."""

    def test_a_raw_error(self, tmp_path, monkeypatch):
        for module in (posix, posix_upload):
            monkeypatch.setattr(module, "in_our_words", lambda *_args: contextlib.nullcontext())
        with pytest.raises(AssertionError, match="raw OSError"):
            every_call(tmp_path, Way.ENOSPC)

    def test_a_descriptor_that_stays_open(self, tmp_path, monkeypatch):
        monkeypatch.setattr(posix_upload.PosixUpload, "abort", lambda _self: None)
        with pytest.raises(AssertionError, match=r"tmp-"):
            every_call(tmp_path, Way.EIO)

    def test_a_short_write_that_nobody_looks_at(self, tmp_path):
        with pytest.raises(AssertionError, match="short, call"):
            every_call(tmp_path, Way.SHORT, opened=making_a_store(WritesOnce))

    def test_a_failed_sync_that_is_called_a_success(self, tmp_path):
        with pytest.raises(AssertionError, match="lost sync, call"):
            every_call(tmp_path, Way.LOST, opened=making_a_store(CallsFailedSyncsSuccesses))
