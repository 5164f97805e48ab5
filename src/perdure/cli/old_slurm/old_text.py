"""What the old commands said, word for word: scripts and people know these texts."""


class OldTextError(Exception):
    """The command ends with this text on standard error, and code 1.

    Attributes:
        text: one or more lines.
        number: Slurm's number for it, as ``scontrol checkpoint error`` shows it.
    """

    def __init__(self, text: str, *, number: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.number = number
