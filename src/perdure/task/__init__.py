"""The library that a user's program imports. Standard library only."""
