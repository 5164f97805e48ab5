"""The bytes of checkpoints: blocks in packs, written, read, encrypted."""
