"""Turn work into a running process: one module a kind of work."""
