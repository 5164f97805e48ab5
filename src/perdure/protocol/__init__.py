"""The messages between a task and its scheduler. Pure."""
