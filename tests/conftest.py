"""What holds for all tests.

Property tests try the same examples on every machine, however slow it is; to look for new ones:
``pytest --hypothesis-profile=default tests/property``.
"""

from hypothesis import settings

settings.load_profile("ci")
