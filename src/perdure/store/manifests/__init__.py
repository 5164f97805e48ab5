"""What a checkpoint holds: its description, as values and as bytes."""
