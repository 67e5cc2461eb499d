"""What the tests of models share: the built-in one, loaded once."""

import pytest

from kho.models.blas import limit_threads
from kho.models.e5_runtime import Runtime


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    limit_threads(1)
    return Runtime()
