from support.worker_fixtures import ground, zygote

__all__ = ["ground", "zygote"]
