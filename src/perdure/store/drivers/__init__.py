"""How a store is reached: in a folder, in memory, on object storage."""
