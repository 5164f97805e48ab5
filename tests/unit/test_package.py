import perdure


def test_version_is_named():
    assert perdure.__version__
