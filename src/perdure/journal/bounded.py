"""An object beside a journal that one launch appends to, and that never grows past a limit."""

from perdure.journal.medium import Medium, segment_key


class BoundedObject:
    """Appends whole entries; for one thread at a time.

    On a store that does not append, an entry is a segment, as journals have them.
    """

    def __init__(self, medium: Medium, key: str, *, limit_bytes: int) -> None:
        self._medium = medium
        self._key = key
        self._limit_bytes = limit_bytes
        self._written = 0
        self._segments = 0

    def append(self, entry: bytes) -> None:
        """Append one entry, unless the object would be too long with it.

        Raises:
            HomeError, OutOfSpace: the store does not take it.
        """
        if not entry or self._written + len(entry) > self._limit_bytes:
            return
        if self._medium.appends:
            self._medium.append(self._key, entry)
        else:
            # A segment whose reply was lost may stand: its number is then passed over.
            while not self._medium.put_if_absent(segment_key(self._key, self._segments + 1), entry):
                self._segments += 1
            self._segments += 1
        self._written += len(entry)
