"""What is known about the saves of one attempt, for its outcome, its status and the next notice."""

from msgspec import Struct, field

#: So much of a task's status is kept for people.
STATUS_LIMIT = 120


class SaveFacts(Struct):
    """Written by the threads that read and capture, read by everyone.

    Attributes:
        announced, committed, skipped, torn: how many.
        local_save, durable_save: the last save that was taken into the local tier, and the last
            that was committed, by their numbers in the attempt; 0 for none.
        point: sequence of the last checkpoint committed by this attempt.
        committed_at: monotonic moment at which its line had been read.
        after_notice: monotonic moment of a save announced after the notice: the last one that was
            committed, else the last one.
        after_notice_durable: whether that one was committed.
        problem: why the last save was not committed, or "".
        resume_status: as reported, or None.
        kept: values.
        learned_seconds: how long the last capture and commit took.
        declared_bytes: of the files declared so far, as they were when they were declared.
        bytes_per_second: at which such files were stored, where enough were.
        progress, status: of the task, for people.
    """

    announced: int = 0
    committed: int = 0
    skipped: int = 0
    torn: int = 0
    local_save: int = 0
    durable_save: int = 0
    point: int | None = None
    committed_at: float | None = None
    after_notice: float | None = None
    after_notice_durable: bool = False
    problem: str = ""
    resume_status: str | None = None
    kept: set[int] = field(default_factory=set)
    learned_seconds: float | None = None
    declared_bytes: int = 0
    bytes_per_second: float | None = None
    progress: float | None = None
    status: str = ""

    def announce(self, save: int, *, at: float, is_after_notice: bool) -> None:
        """A save was announced; one after the notice that is durable stays the one that counts."""
        self.announced = save
        if is_after_notice and not self.after_notice_durable:
            self.after_notice = at

    def commit(self, *, heard_at: float, took_seconds: float, is_after_notice: bool) -> None:
        """A save was committed."""
        self.committed += 1
        self.problem = ""
        self.committed_at = heard_at
        self.learned_seconds = took_seconds
        if is_after_notice:
            self.after_notice = heard_at
            self.after_notice_durable = True
