"""What was done to the store to make it lose something, and whether it did: one line a kind.

    python bench/faults.py [--quick] [--seed N]

Runs the harnesses of the tests (`tests/support`), not copies of them. Without --quick: every call
that can fail fails in every way, a kill at every system call, 24,000 states after a power failure,
10,000 damages, every broken driver, 100 points of an in-place save: about half an hour on one core.
Exits with 1 when something was lost, and when a kind could not be tried here.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from support.damaged_stores import DamagedStore  # noqa: E402
from support.failing_calls import Counts, Way, every_call  # noqa: E402
from support.in_place_writer import killed_in_its_next_save  # noqa: E402
from support.killed_lives import NotPermitted, killed_everywhere  # noqa: E402
from support.lives_without_power import powered_off, recorded_life  # noqa: E402
from support.meta_contract import (  # noqa: E402
    BROKEN,
    BROKEN_IN_A_FOLDER,
    failed_checks,
    failed_durable_checks,
)

POWER_STATES = 24_000
DAMAGES = 10_000
POINTS = 100
QUICK_PART = 50


@dataclass(frozen=True)
class How:
    """Where to try, what the choices follow from, and whether a sample will do."""

    folder: Path
    seed: int
    quick: bool


Try = Callable[[How], str]


def failing_calls(how: How) -> str:
    total = Counts()
    for way in (Way.ENOSPC, Way.LOST) if how.quick else Way:
        total.add(every_call(how.folder, way))
    return str(total)


def kills(how: How) -> str:
    points, killed = killed_everywhere(
        how.folder, sample=QUICK_PART if how.quick else None, seed=how.seed
    )
    return f"{points} system calls in a life: {killed}"


def power_failures(how: How) -> str:
    history = recorded_life(how.folder / "life")
    each = 5 if how.quick else -(-POWER_STATES // (len(history) + 1))
    tried = powered_off(history, how.folder, each=each, seed=how.seed)
    assert tried.wrong == [], tried.wrong
    return str(tried)


def damages(how: How) -> str:
    count = DAMAGES // QUICK_PART if how.quick else DAMAGES
    tried = DamagedStore(how.folder / "store").try_all(range(how.seed, how.seed + count))
    assert tried.wrong == [], tried.wrong[:5]
    return str(tried)


def broken_drivers(how: How) -> str:
    passed = [kind.__name__ for kind, check in BROKEN.items() if check not in failed_checks(kind)]
    for kind, check in BROKEN_IN_A_FOLDER.items():
        if check not in failed_durable_checks(kind, how.folder / kind.__name__):
            passed.append(kind.__name__)
    assert passed == [], f"pass what they were made to fail: {passed}"
    return f"{len(BROKEN) + len(BROKEN_IN_A_FOLDER)} drivers, all found by the check meant for them"


def in_place_writers(how: How) -> str:
    tried = killed_in_its_next_save(how.folder, points=2 if how.quick else POINTS, seed=how.seed)
    assert tried.mixtures == [], tried.mixtures
    return str(tried)


KINDS: dict[str, Try] = {
    "failing calls": failing_calls,
    "kills at calls": kills,
    "power failures": power_failures,
    "damages": damages,
    "broken drivers": broken_drivers,
    "in-place writers": in_place_writers,
}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--quick", action="store_true", help="a sample of each")
    parser.add_argument("--seed", type=int, default=20261130)
    given = parser.parse_args(words)
    status = 0
    for name in given.kinds or KINDS:
        with tempfile.TemporaryDirectory(prefix="perdure-faults-") as folder:
            try:
                said = KINDS[name](How(Path(folder), given.seed, given.quick))
            except NotPermitted as error:
                said, status = f"NOT TRIED: {error}", 1
            except Exception as error:  # noqa: BLE001 - the other kinds are tried, too
                said, status = f"FAILED: {error}", 1
        print(f"{name}: {said}", flush=True)
    print(f"seed {given.seed}: {'something was not found' if status else 'nothing was lost'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
