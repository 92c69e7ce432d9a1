"""Two trained runs, which all tests of the page share."""

import pytest

from tests.support.show_case import trained_runs


@pytest.fixture(scope="package")
def runs(tmp_path_factory):
    """A folder with the runs `counting` and `recurrent`, and their corpus in `corpus`."""
    return trained_runs(tmp_path_factory.mktemp("show"))
