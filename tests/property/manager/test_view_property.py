"""However often a job was read while things happened, it looks the same as to whoever comes new."""

from hypothesis import given, settings
from hypothesis import strategies as st

from looking_kit import CHUNKS, HandMade
from perdure.journal.journal_format import Kind
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.template import task_key

STEP = StepKey(1)
CHUNK, CHUNK_COUNT = 5, 4


def text(values):
    return {"Frame": f"{values[0]}-{values[-1]}"}


class Lineage:
    """A chunk or a piece of one, as its logs and journals would have it."""

    def __init__(self, values):
        self.key = TaskKey(task_key(text(values)))
        self.values = values
        self.attempt = 0
        self.holder = None
        self.is_begun = False
        self.is_done = False

    @property
    def is_free(self):
        return self.holder is None and not self.is_done


class World:
    """Whatever workers could do one after the other, drawn by hypothesis."""

    def __init__(self, data):
        self.draw = data.draw
        self.made = HandMade(template=CHUNKS)
        self.alive = []
        self.launched = 0
        self.shared = 0
        self.lineages = []

    def choose(self, among):
        return self.draw(st.sampled_from(among))

    def start(self):
        launch = LaunchId(f"01jdxyz00000000000000001{self.launched:02}")
        self.launched += 1
        self.made.launch(launch)
        self.alive.append(launch)

    def share(self):
        launch = self.choose(self.alive)
        self.made.share(self.shared, self.shared, launch=launch)
        first = self.shared * CHUNK + 1
        lineage = Lineage(list(range(first, first + CHUNK)))
        lineage.holder, lineage.attempt = launch, 1
        self.shared += 1
        self.lineages.append(lineage)

    def claim(self):
        """What remains of the chunk: it may be cut, and the rest is a lineage of its own.

        It is begun at once: a claim alone is in no journal, and a view sees it with what follows.
        """
        lineage = self.choose([one for one in self.lineages if one.is_free])
        lineage.holder, lineage.attempt = self.choose(self.alive), lineage.attempt + 1
        fields = {}
        done = self.draw(st.integers(0, len(lineage.values) - 1))
        if done:
            left = lineage.values[done:]
            cut = self.draw(st.integers(1, len(left)))
            lineage.values = left[:cut]
            fields = {"values": text(lineage.values)}
            if left[cut:]:
                fields["split"] = [text(left[cut:])]
                self.lineages.append(Lineage(left[cut:]))
        self.made.claim(lineage.key, lineage.attempt, launch=lineage.holder, **fields)
        self.begin(lineage)

    def begin_share(self):
        self.begin(self.choose([o for o in self.lineages if o.holder and not o.is_begun]))

    def begin(self, lineage):
        lineage.is_begun = True
        values = text(lineage.values)
        self.made.begun(lineage.key, values, launch=lineage.holder, attempt=lineage.attempt)

    def end(self):
        lineage = self.choose([one for one in self.lineages if one.is_begun])
        state = self.choose(["SUCCEEDED", "FAILED", "SUSPENDED"])
        about = {"cause": "exit", "exit_code": 1} if state == "FAILED" else {}
        self.made.ended(lineage.key, state, launch=lineage.holder, attempt=lineage.attempt, **about)
        lineage.is_done = state == "SUCCEEDED"
        lineage.holder, lineage.is_begun = None, False

    def die(self):
        """It is gone without a word, and sealed and fenced."""
        launch = self.choose(self.alive)
        self.alive.remove(launch)
        self.made.record("fence", launch=launch, offset=2**20)
        for lineage in self.lineages:
            if lineage.holder == launch:
                if not lineage.is_begun:
                    lineage.attempt -= 1  # as if nobody had taken it
                lineage.holder, lineage.is_begun = None, False

    def close(self):
        launch = self.choose(self.idle())
        self.alive.remove(launch)
        self.made.journal(Kind.CLOSED, launch=launch)

    def idle(self):
        return [one for one in self.alive if all(o.holder != one for o in self.lineages)]

    def possible(self):
        alive = bool(self.alive)
        return [
            action
            for action, can in (
                (self.start, len(self.alive) < 3 and self.launched < 12),
                (self.share, alive and self.shared < CHUNK_COUNT),
                (self.claim, alive and any(one.is_free for one in self.lineages)),
                (self.begin_share, any(o.holder and not o.is_begun for o in self.lineages)),
                (self.end, any(one.is_begun for one in self.lineages)),
                (self.die, alive),
                (self.close, bool(self.idle())),
            )
            if can
        ]


def seen(view):
    step = view.steps[STEP]
    pending = {one.task for one in step.pending(view.stops, 2e9)}
    return step.total(), step.counts(view.stops), pending


@given(st.data())
@settings(max_examples=40)
def test_a_view_that_was_read_on_says_what_a_new_one_says(data):
    world = World(data)
    view = world.made.view()
    for _ in range(data.draw(st.integers(1, 30))):
        if not (possible := world.possible()):
            break
        world.choose(possible)()
        if data.draw(st.booleans()):
            view.refresh()
    view.refresh()
    total, counts, pending = seen(view)
    assert (total, counts, pending) == seen(world.made.view())
    lineages = world.lineages
    assert total == CHUNK_COUNT + sum(one.key not in chunks() for one in lineages)
    assert counts.running == sum(one.is_begun for one in lineages)
    assert counts.succeeded == sum(one.is_done for one in lineages)


def chunks():
    firsts = range(1, CHUNK * CHUNK_COUNT, CHUNK)
    return {TaskKey(task_key(text(range(f, f + CHUNK)))) for f in firsts}
