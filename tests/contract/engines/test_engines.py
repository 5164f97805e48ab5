"""The contract of engines, on this host and on a simulated LSF; tests/cluster has Slurm's."""

import pytest

from perdure.engines.local import LocalEngine
from perdure.engines.lsf.engine import LsfEngine
from support.engine_contract import EngineContract, EngineGround
from support.lsf_cluster import LsfCluster


class TestLocalEngine(EngineContract):
    @pytest.fixture
    def ground(self, tmp_path):
        ground = EngineGround(LocalEngine, tmp_path)
        yield ground
        ground.close()


class TestLsfEngine(EngineContract):
    @pytest.fixture
    def ground(self, tmp_path, monkeypatch):
        cluster = LsfCluster(tmp_path / "lsf")
        monkeypatch.setenv("PATH", cluster.environment["PATH"])
        cluster.up()
        ground = EngineGround(LsfEngine, tmp_path)
        yield ground
        ground.close()
        cluster.down()
