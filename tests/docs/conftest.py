"""One run of a broker for all tests that check what it exports."""

import pytest

import metrics_tour


@pytest.fixture(scope="session")
def exported() -> str:
    """The /metrics page of a broker that has done everything that makes a metric appear."""
    return metrics_tour.metrics_page()
