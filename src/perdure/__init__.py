"""Run long tasks on machines that get interrupted, losing only the work since the last save."""

__version__ = "0.1.0"
