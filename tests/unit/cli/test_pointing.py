import pytest

from perdure.cli.pointing import pointed, remember


@pytest.fixture(autouse=True)
def _nothing_remembered():
    remember()
    yield
    remember()


def test_commands_name_the_places_that_were_given():
    remember(home=None, store="/my store")
    assert pointed("see: perdure why 01j") == "see: perdure why --store '/my store' 01j"
    assert pointed("`perdure checkpoint show J@1`") == (
        "`perdure checkpoint show --store '/my store' J@1`"
    )
    assert pointed("perdure resumed it") == "perdure resumed it"
    remember(home="/h", store="s3://b")
    assert pointed("perdure rm J") == "perdure rm --home /h --store s3://b J"
    assert pointed("`perdure du`") == "`perdure du --home /h --store s3://b`"


def test_without_them_nothing_changes():
    assert pointed("see: perdure why 01j") == "see: perdure why 01j"
