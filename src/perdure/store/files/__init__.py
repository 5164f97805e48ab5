"""A task's files on a host: where they may lie, whose they are, what their times tell."""
