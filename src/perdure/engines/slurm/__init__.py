"""Workers as elements of Slurm's job arrays."""
