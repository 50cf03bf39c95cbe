"""One tour of a broker for all tests that ask what it exports."""

import pytest

import metrics_tour


@pytest.fixture(scope="session")
def exported() -> str:
    """What /metrics shows of a broker that has met everything that makes a metric appear."""
    return metrics_tour.metrics_page()
