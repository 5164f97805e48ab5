"""What the paths of a checkpoint's entries may be: below their root, and no contradiction. Pure.

Source: docs/store-format.md "Manifests"; docs/decisions/046.
"""

import re

from perdure.store.manifests.manifest import EntryType, Manifest, above

PATH_LIMIT_BYTES = 4096
_HOLD = re.compile(r"\.perdure-[0-9a-f]{32}")


def is_hold_name(name: str) -> bool:
    """Whether it can be the second name of an adopted file."""
    return _HOLD.fullmatch(name) is not None


def stays_inside(path: str, target: str) -> bool:
    """Whether a link at ``path`` to ``target`` leads nowhere above the root, whatever is there.

    Only leading ``..`` are allowed, and no more of them than the link lies deep: behind a name that
    may itself be a link, ``..`` could lead anywhere.
    """
    parts = target.split("/")
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    names = parts[ups:]
    is_plain = all(name not in ("", ".", "..") for name in names)
    return target == "." or (is_plain and bool(parts) and ups <= path.count("/"))


def is_below(path: str) -> bool:
    """Whether ``path`` is relative, without empty parts, ``.`` and ``..``."""
    parts = path.split("/")
    return "" not in parts and "." not in parts and ".." not in parts


def contradiction_in(manifest: Manifest) -> str | None:
    """Why these entries cannot all be: a path twice, or below what is no folder (a link, say)."""
    types: list[dict[str, EntryType]] = [{} for _ in manifest.roots]
    for entry in manifest.entries:
        if entry.path in types[entry.root]:
            return f"{entry.path!r} is named twice"
        types[entry.root][entry.path] = entry.type
    for known in types:
        fine: set[str] = set()
        for path in known:
            if path.rpartition("/")[0] in fine:
                continue
            for folder in above(path):
                if folder in fine:
                    break
                if known.get(folder, EntryType.FOLDER) is not EntryType.FOLDER:
                    return f"{folder!r} is a folder and something else too"
                fine.add(folder)
    return None
