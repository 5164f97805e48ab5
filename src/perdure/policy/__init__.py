"""What perdure decides. Pure: a snapshot in, a decision out."""
