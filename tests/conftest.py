"""What holds for every test: property tests draw the same examples each run and watch no clock."""

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-language",
        action="store_true",
        help="run each browser test in both languages, not only those marked `every_language`",
    )
