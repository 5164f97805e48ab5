"""How often Python looks for garbage in cycles: seldom.

A save of 20,000 files makes some hundred thousand small values, none of them in a cycle; looking
through all of them again and again, as Python does by default, takes a third of the save's time.
What is imported stays for ever and is not looked at.

Memory: at most some megabytes of garbage wait a little longer.
"""

import gc

#: New objects before the young ones are looked through (700 by default), and the older ones.
_THRESHOLDS = (50_000, 20, 50)


def collect_seldom() -> None:
    """Set it for this process, after its imports."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
