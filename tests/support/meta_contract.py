"""Which check of the drivers' contract must fail for which broken driver.

The contract's own proof: a suite that a broken driver passes shows nothing.
"""

from pathlib import Path

from _pytest.outcomes import Failed

from contract.store.driver_contract import CHECKS, DURABLE_CHECKS
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.drivers.posix import PosixDriver
from support import broken_drivers as broken

#: Broken for everybody to see, with the check that is there for it.
BROKEN: dict[type[MemoryDriver], str] = {
    broken.Overwrites: "a_second_put_if_absent_is_refused_and_changes_nothing",
    broken.SaysCreatedTwice: "of_many_writers_exactly_one_creates",
    broken.LosesWrites: "every_object_that_was_put_is_there",
    broken.LosesPieces: "pieces_make_one_object",
    broken.ReadsStale: "a_put_replaces",
    broken.ReadsTruncated: "a_put_object_is_read_whole",
    broken.ReadsShort: "ranges_are_cut_at_the_end",
    broken.ReadsNothingAsEmpty: "what_is_not_there_is_missing",
    broken.DeletesNothing: "a_deleted_object_is_gone_and_its_key_free",
    broken.ListsUnsorted: "lists_are_sorted_and_of_whole_parts",
    broken.ListsByText: "lists_are_sorted_and_of_whole_parts",
    broken.ListForgets: "every_object_that_was_put_is_there",
    broken.ShowsUploads: "an_upload_is_seen_only_after_its_commit",
    broken.AppendsOver: "a_journal_grows_at_its_end",
    broken.TakesAnyName: "names_that_are_no_keys_are_refused",
    broken.HeadGuesses: "a_put_object_is_read_whole",
    broken.DropsEmptyObjects: "an_empty_object_is_one",
    broken.NeverOverwritesInPlace: "a_put_in_place_replaces_too",
    broken.CommitsOverOthers: "an_upload_to_a_taken_key_is_refused",
    broken.CommitsAborted: "an_aborted_upload_leaves_nothing",
    broken.ShowsGrandchildren: "children_stop_at_the_next_slash",
}
#: Broken when the power fails, likewise.
BROKEN_IN_A_FOLDER: dict[type[PosixDriver], str] = {
    broken.NeverSyncs: "what_was_created_survives",
    broken.NeverSyncsData: "what_was_created_survives",
    broken.NeverSyncsNames: "what_was_created_survives",
    broken.NeverSyncsParents: "what_was_created_survives",
    broken.SaysCreatedBeforeTheSync: "what_was_created_survives",
    broken.WritesUnderItsName: "what_was_created_survives",
    broken.ReplacesInTwoSteps: "what_was_replaced_is_the_old_or_the_new_object",
    broken.SyncsNoJournal: "what_was_synced_of_a_journal_survives",
    broken.UploadsWithoutSync: "what_was_uploaded_survives",
    broken.PutsLate: "what_was_deleted_after_a_put_is_not_gone_before_it",
}


def failed_checks(kind: type[MemoryDriver]) -> list[str]:
    """The checks that a driver of that kind does not pass."""
    failed = []
    for name, check in CHECKS.items():
        try:
            check(kind())
        except (Exception, Failed):
            failed.append(name)
    return failed


def failed_durable_checks(kind: type[PosixDriver], folder: Path) -> list[str]:
    """The same of those that show when the power fails; each in a folder of its own."""
    failed = []
    for name, check in DURABLE_CHECKS.items():
        (folder / name).mkdir(parents=True)
        try:
            check(kind, folder / name)
        except Exception:
            failed.append(name)
    return failed
