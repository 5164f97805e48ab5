"""The proof of a kill for want of memory; and how many values a chunk takes."""

import pytest

from perdure.template.chunks import ChunkSpec
from perdure.worker.memory import OomCounter, memory_proof
from perdure.worker.pace import Pace


def kills(tmp_path, membership: str, **files: str):
    for name, text in files.items():
        path = tmp_path / "fs" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "cgroup").write_text(membership)
    return OomCounter(tmp_path / "cgroup", tmp_path / "fs").read()


def test_version_2(tmp_path):
    events = "low 0\noom 2\noom_kill 3\noom_group_kill 0\n"
    assert kills(tmp_path, "0::/a/b\n", a__b__memory_DOT_events=events) == 3


def test_version_2_beside_version_1(tmp_path):
    text = "12:cpu:/x\n0::/a\n"
    assert kills(tmp_path, text, unified__a__memory_DOT_events="oom_kill 1\n") == 1


def test_version_1(tmp_path):
    text = "11:cpu,memory:/job\n1:name=systemd:/\n"
    control = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"
    assert kills(tmp_path, text, memory__job__memory_DOT_oom_control=control) == 7


@pytest.mark.parametrize("text", ["", "0::/nowhere\n", "nonsense\n", "1:cpu:/x\n"])
def test_where_nothing_is_counted_there_is_no_proof(tmp_path, text):
    assert kills(tmp_path, text) is None
    assert OomCounter(tmp_path / "missing", tmp_path).read() is None


def test_a_counter_that_is_none(tmp_path):
    assert kills(tmp_path, "0::/a\n", a__memory_DOT_events="oom_kill many\n") is None


def test_the_proof_is_that_the_counter_moved():
    assert memory_proof(1, 3) == (
        "the kernel killed 2 process(es) of its cgroup for want of memory"
    )
    for before, after in ((1, 1), (None, 1), (1, None), (2, 1)):
        assert memory_proof(before, after) is None


def spec(target):
    return ChunkSpec(
        parameter="F", default_task_count=4, target_runtime_seconds=target, is_contiguous=True
    )


def test_the_first_chunk_has_the_default_size():
    assert Pace().count(spec(60)) == 4


def test_later_ones_fill_the_target():
    pace = Pace()
    pace.learn(4, 20.0)
    assert pace.count(spec(60)) == 12
    pace.learn(12, 220.0)
    assert pace.count(spec(60)) == 4
    assert pace.count(spec(1)) == 1
    assert pace.count(spec(None)) == 4


def test_values_that_took_no_time_teach_nothing():
    pace = Pace()
    pace.learn(4, 0.0)
    assert pace.count(spec(60)) == 4
