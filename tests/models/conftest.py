"""What the tests of models share: the built-in one, loaded once."""

import pytest

from kho.models.e5.runtime import Runtime
from kho.models.e5.tokenizer import Tokenizer
from kho.models.e5.weights import WeightsFile, find


@pytest.fixture(scope="session")
def file() -> WeightsFile:
    return WeightsFile(find())


@pytest.fixture(scope="session")
def runtime(file: WeightsFile) -> Runtime:
    return Runtime(file)


@pytest.fixture(scope="session")
def tokenizer(file: WeightsFile) -> Tokenizer:
    return Tokenizer(file.vocabulary())
