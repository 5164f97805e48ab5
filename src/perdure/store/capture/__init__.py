"""Taking a save."""
