"""Bringing a finished task's files to where they are wanted."""
