"""Runs attempts on a host."""
