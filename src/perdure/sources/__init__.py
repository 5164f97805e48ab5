"""Where saves come from."""
