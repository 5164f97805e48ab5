"""How sizes are written for people."""

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size_bytes: int) -> str:
    """A size like ``12.3 GiB``."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in _UNITS:
        amount /= 1024
        if amount < 1024 or unit == _UNITS[-1]:
            return f"{amount:.1f} {unit}"
    raise AssertionError(size_bytes)
