"""Workers as elements of LSF's job arrays."""
