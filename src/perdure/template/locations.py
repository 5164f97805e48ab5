"""Where something stands in a template: a location, and the path text that shows it to people.

A location is the row of keys and indexes that leads to a value. Its text follows the style of the
Open Job Description library: ``steps[0] -> script -> actions -> onRun``.
"""

Location = tuple[str | int, ...]


def path_text(location: Location) -> str:
    """``location`` as people read it; "" for the whole document."""
    parts: list[str] = []
    for item in location:
        if isinstance(item, str):
            parts.append(item)
        elif parts:
            parts[-1] += f"[{item}]"
        else:
            parts.append(f"[{item}]")
    return " -> ".join(parts)


def starts_with(location: Location, prefix: Location) -> bool:
    """Whether ``location`` is ``prefix`` or lies below it."""
    return location[: len(prefix)] == prefix
