"""The SQLite cache for commands: may be deleted at any time."""
