"""Steps in an order in which each comes after what it depends on."""

from collections import deque
from collections.abc import Mapping


def in_order(dependencies: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The keys, each after those that it depends on; otherwise as given.

    The template's check has refused cycles; here one would leave its members out.
    """
    waits = {key: len(set(before)) for key, before in dependencies.items()}
    after: dict[int, list[int]] = {key: [] for key in dependencies}
    for key, before in dependencies.items():
        for earlier in set(before):
            after[earlier].append(key)
    ready = deque(key for key, count in waits.items() if count == 0)
    ordered: list[int] = []
    while ready:
        key = ready.popleft()
        ordered.append(key)
        for later in after[key]:
            waits[later] -= 1
            if waits[later] == 0:
                ready.append(later)
    return tuple(ordered)
