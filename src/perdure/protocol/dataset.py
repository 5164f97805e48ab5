"""The files and folders that a task declared so far: what the next save includes.

ACCUMULATE adds, RESET replaces. A declaration that was refused, or that breaks a limit, leaves the
dataset *incomplete*: a save of it would be a checkpoint without a file that the task counts on, so
every save is refused until a RESET says anew what belongs to it. Values are reported under the same
rule. See docs/decisions/021-refused-declaration.md.
"""

from msgspec import Struct

from perdure.protocol.messages import CheckpointFiles, FilesMode

PATH_COUNT_LIMIT = 100_000
#: All paths together; at the count's limit an average of 335 bytes.
PATH_BYTES_LIMIT = 32 * 1024 * 1024


class Dataset(Struct, frozen=True, kw_only=True):
    """What one save includes, in the order of first declaration, each path once."""

    files: tuple[str, ...] = ()
    dirs: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was declared."""
        return not self.files and not self.dirs

    @property
    def paths(self) -> tuple[str, ...]:
        """Files and folders, each once."""
        return tuple(dict.fromkeys((*self.files, *self.dirs)))


class DatasetFold:
    """Folds declarations; the dataset at any moment is `dataset`, if it is whole."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Nothing is declared, nothing was refused."""
        self.incomplete: str | None = None
        self._files: dict[str, None] = {}
        self._dirs: dict[str, None] = {}
        self._bytes = 0
        self._dataset: Dataset | None = Dataset()

    @property
    def dataset(self) -> Dataset:
        """The dataset declared so far."""
        if self._dataset is None:
            self._dataset = Dataset(files=tuple(self._files), dirs=tuple(self._dirs))
        return self._dataset

    def declare(self, message: CheckpointFiles, *, line_number: int) -> str | None:
        """Apply a declaration; why it was refused, or None."""
        if message.mode is FilesMode.RESET:
            self._begin()
        self._dataset = None
        for known, paths in ((self._files, message.files), (self._dirs, message.dirs)):
            for path in paths:
                if path in known:
                    continue
                size = len(path.encode("utf-8"))
                if refused := self._beyond(size):
                    self.refuse(refused, line_number=line_number)
                    return refused
                known[path] = None
                self._bytes += size
        return None

    def refuse(self, reason: str, *, line_number: int) -> None:
        """Remember that a declaration did not count."""
        if self.incomplete is None:
            self.incomplete = f"the files declared in line {line_number} were refused: {reason}"

    def _beyond(self, size: int) -> str | None:
        """Which limit one more path of ``size`` bytes would break."""
        if len(self._files) + len(self._dirs) >= PATH_COUNT_LIMIT:
            return f"a dataset holds at most {PATH_COUNT_LIMIT} paths; declare their folder instead"
        if self._bytes + size > PATH_BYTES_LIMIT:
            return f"the paths of a dataset have at most {PATH_BYTES_LIMIT} bytes in all"
        return None
