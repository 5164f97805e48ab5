"""What perdure knows about particular programs."""
