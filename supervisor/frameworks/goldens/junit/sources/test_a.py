import pytest


def helper(x):
    assert x == 3, "off"


def test_holds():
    print("fine")


def test_is_wrong():
    helper(2)


@pytest.fixture
def database():
    raise RuntimeError("no <database>")


def test_needs_database(database):
    pass


@pytest.mark.skip(reason="not today")
def test_later():
    pass


@pytest.mark.xfail(reason="known")
def test_known():
    assert False


@pytest.mark.parametrize("name", ["a", "a&b é"])
def test_each(name):
    pass
