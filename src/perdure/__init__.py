"""Run long tasks on machines that get interrupted; lose no more than the work since the last save."""

__version__ = "0.1.0"
