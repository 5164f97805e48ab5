"""Records, of which every one is whole or absent, and the logs in which they follow each other."""
