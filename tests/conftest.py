"""What holds for every test: property tests draw the same examples each run and watch no clock."""

from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("suite")
