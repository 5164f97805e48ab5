"""A journal has one writer; whoever else makes it durable does not touch it."""

from perdure.store.drivers.posix import PosixDriver

KEY = "jobs/job/launches/launch/journal"


def test_syncing_anothers_journal_cuts_nothing_of_what_it_writes_afterwards(tmp_path):
    writer, other = PosixDriver(tmp_path), PosixDriver(tmp_path)
    writer.append(KEY, b"one\n")
    other.sync(KEY)
    writer.append(KEY, b"two\n")
    other.close()
    assert writer.get(KEY) == b"one\ntwo\n"
    writer.close()
    assert PosixDriver(tmp_path).get(KEY) == b"one\ntwo\n"


def test_syncing_what_nobody_wrote_makes_nothing(tmp_path):
    driver = PosixDriver(tmp_path)
    driver.sync(KEY)
    assert driver.head(KEY) is None
