"""``python -m perdure``: the command line."""

from perdure.cli import main

main()
