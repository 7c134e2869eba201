"""The `camhd` command: parsing and printing, nothing else."""
