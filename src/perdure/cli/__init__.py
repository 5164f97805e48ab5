"""The command line. Only it, the worker's entry and `perdure.task` read the environment.

Nothing is imported here: the entries (`perdure.__main__`, `perdure.cli.work`) start fast.
"""
