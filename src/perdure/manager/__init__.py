"""Turns: read the logs, decide, record, launch."""
