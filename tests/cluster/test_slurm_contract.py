"""The contract of engines, on the real cluster, as whoever runs the tests."""

import getpass
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from perdure.engines.slurm.engine import SlurmEngine
from support.engine_contract import EngineContract, EngineGround


class TestSlurmEngine(EngineContract):
    @pytest.fixture
    def ground(self, cluster, monkeypatch):
        cluster.up()
        monkeypatch.setenv("SLURM_CONF", cluster.environment()["SLURM_CONF"])
        folder = Path(tempfile.mkdtemp(prefix="contract-", dir=cluster.jobs))
        ground = EngineGround(SlurmEngine, folder)
        yield ground
        ground.close()
        subprocess.run(["scancel", "--user", getpass.getuser()], check=False)
        shutil.rmtree(folder)
