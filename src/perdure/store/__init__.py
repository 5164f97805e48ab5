"""Where everything true is kept: drivers, logs, blocks, packs, checkpoints."""
