"""How many values the next adaptive chunk takes: as many as are likely to fill the target runtime.

Source: Open Job Description, TASK_CHUNKING: ``targetRuntimeSeconds``; `openjd run` has no shared
estimate between sessions, nor do workers here: each learns from its own chunks.
"""

from perdure.template.chunks import ChunkSpec


class Pace:
    """What one launch learned about how long a value takes."""

    def __init__(self) -> None:
        self._values = 0
        self._seconds = 0.0

    def learn(self, values: int, seconds: float) -> None:
        """A chunk of so many values took so long."""
        self._values += values
        self._seconds += seconds

    def count(self, chunk: ChunkSpec) -> int:
        """The size of the next chunk, at least one."""
        target = chunk.target_runtime_seconds
        if not target or self._values == 0 or self._seconds <= 0:
            return max(1, chunk.default_task_count)
        return max(1, int(target * self._values / self._seconds))
