"""Actors that can be stopped before every call and gone on with in every possible way.

Theory of operation. What an actor does next depends only on what its calls have answered so far. So
an actor's place is its *history*, the row of answers; its next call is found by running the real
code with a driver that gives these answers again, and breaks off (`Pending`, which no code of ours
catches) at the first call that has none. Places are kept in a tree, so that each history is run
once, however many states of the world it occurs in.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from perdure.store.drivers.driver import KeyMissing, PutUncertain, get_one_by_one


@dataclass(frozen=True)
class Ask:
    """What an actor is about to do: a call of the driver, or a question to the world."""

    call: str
    args: tuple[Hashable, ...]

    def __str__(self) -> str:
        shown = [str(arg) if not isinstance(arg, bytes) else _shown(arg) for arg in self.args]
        return f"{self.call}({', '.join(shown)})"


def _shown(data: bytes) -> str:
    """A record's header or a journal's lines, short."""
    lines = data.decode("utf-8", "replace").split("\n")
    return lines[1][:160] if lines[0].startswith("perdure-record") else data.decode()[:160]


#: Answers beside values.
MISSING = "key missing"
UNCERTAIN = "put uncertain"


class Pending(BaseException):
    """The actor's next call has no answer yet."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self.ask = ask


class World:
    """What an actor sees: the driver's calls, and questions (`ask`)."""

    appends = True
    url = "memory://model"
    pack_limit_bytes = 1 << 20
    gets_at_once = 1

    def __init__(self, name: str) -> None:
        self.name = name
        self._ids = 0

    def answer(self, ask: Ask) -> Any:
        raise NotImplementedError

    def ask(self, call: str, *args: Hashable) -> Any:
        found = self.answer(Ask(call, args))
        if found is MISSING:
            raise KeyMissing(str(args[0]))
        if found is UNCERTAIN:
            raise PutUncertain(str(args[0]))
        return found

    def next_id(self) -> str:
        """The record ids of one actor: never two alike, the same in every run of a history."""
        self._ids += 1
        return f"{self.name}-{self._ids}"

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self.ask("put_if_absent", key, bytes(data))

    def put(self, key: str, data: bytes, *, in_place: bool = False) -> None:
        self.ask("put", key, bytes(data))

    def append(self, key: str, data: bytes) -> None:
        self.ask("append", key, bytes(data))

    def sync(self, key: str) -> None:
        """Nothing: the memory driver has nothing to sync."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return self.ask("get", key, start)

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        return get_one_by_one(self, keys)

    def head(self, key: str) -> int | None:
        return self.ask("head", key)

    def list(self, prefix: str) -> Iterator[str]:
        return iter(self.ask("list", prefix))

    def children(self, prefix: str) -> tuple[str, ...]:
        """Nothing: no record is ever lost here, so that nobody has to look for one."""
        return ()

    def delete(self, key: str) -> None:
        self.ask("delete", key)


class Replayed(World):
    """Gives the answers of a history, then breaks off."""

    def __init__(self, name: str, history: tuple[Any, ...]) -> None:
        super().__init__(name)
        self._answers = iter(history)

    def answer(self, ask: Ask) -> Any:
        for found in self._answers:
            return found
        raise Pending(ask)


Program = Callable[[World], None]

#: Whose ids are drawn now; see `drawing_ids`.
_current: list[World] = []


class Ids:
    """Stands in for the ``secrets`` of `perdure.store.records.log`."""

    @staticmethod
    def token_hex(_size: int = 16) -> str:
        return _current[-1].next_id()


def run(program: Program, world: World) -> Ask | None:
    """Run until the world breaks off; the call that has no answer, or None at the end."""
    _current.append(world)
    try:
        program(world)
    except Pending as pending:
        return pending.ask
    finally:
        _current.pop()
    return None


class Place:
    """A history of one actor, with its next call; ``ask`` is None at the end."""

    __slots__ = ("_actor", "_history", "_next", "ask")

    def __init__(self, actor: "Actor", history: tuple[Any, ...]) -> None:
        self._actor = actor
        self._history = history
        self._next: dict[Any, Place] = {}
        self.ask = run(actor.program, Replayed(actor.name, history))
        actor.places += 1

    def after(self, answer: Any) -> "Place":
        """The place after the next call was answered so."""
        found = self._next.get(answer)
        if found is None:
            found = self._next[answer] = Place(self._actor, (*self._history, answer))
        return found


class Actor:
    """A program with a name, and all places that it was found in."""

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self.program = program
        self.places = 0
        self.start = Place(self, ())
