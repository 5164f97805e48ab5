"""The command line. Only it, the worker's entry and `perdure.task` read the environment."""
