"""The checkpoint options that Slurm had until 2019, on the Slurm of today."""
