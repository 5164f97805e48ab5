"""Putting a checkpoint back, and checking one."""
