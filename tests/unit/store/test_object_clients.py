"""Where an object store is, and with which credentials."""

import builtins

import pytest

from perdure.errors import UsageError
from perdure.store.drivers.object_clients import (
    Clients,
    ObjectPlace,
    S3Keys,
    make_client,
    parse_place,
    s3_keys,
    s3_region,
)

PLACE = ObjectPlace(scheme="s3", account="", bucket="b", prefix="")
FILE = """\
[default]
aws_access_key_id = of-file
aws_secret_access_key = secret-of-file
aws_session_token = token-of-file

[other]
aws_access_key_id = of-other
aws_secret_access_key = secret-of-other
"""


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://b", ("s3", "", "b", "")),
        ("s3://b/", ("s3", "", "b", "")),
        ("s3://b/a/c/", ("s3", "", "b", "a/c")),
        ("gs://my_bucket.example/x", ("gs", "", "my_bucket.example", "x")),
        ("az://account/container", ("az", "account", "container", "")),
        ("az://account/container/a/b", ("az", "account", "container", "a/b")),
    ],
)
def test_a_url_names_a_place(url, place):
    found = parse_place(url)
    assert (found.scheme, found.account, found.bucket, found.prefix) == place


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///x",
        "az://account",
        "s3://b/../c",
        "s3://b/./c",
        "s3://b//c",
        "s3://b/" + "x" * 501,
    ],
)
def test_what_is_no_place_is_refused_with_the_cure(url):
    with pytest.raises(UsageError) as caught:
        parse_place(url)
    assert caught.value.hint


@pytest.mark.parametrize(
    "url",
    ["s3://key:hidden@b/x", "s3://hidden@b", "az://a/c/p?sig=hidden", "gs://b/x#hidden"],
)
def test_a_url_with_secrets_is_refused_and_not_repeated(url):
    with pytest.raises(UsageError, match="must hold no secret") as caught:
        parse_place(url)
    assert "hidden" not in caught.value.message + caught.value.hint


def test_keys_come_from_the_variables_first_then_from_the_file(tmp_path):
    path = tmp_path / "credentials"
    path.write_text(FILE)
    file = {"AWS_SHARED_CREDENTIALS_FILE": str(path)}
    variables = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
    of_file = S3Keys(key="of-file", secret="secret-of-file", token="token-of-file")
    of_other = S3Keys(key="of-other", secret="secret-of-other", token=None)
    of_variables = S3Keys(key="k", secret="s", token="t")
    assert s3_keys({**variables, **file}) == of_variables
    assert s3_keys({**variables, **file}, skip_variables=True) == of_file
    assert (
        s3_keys(variables | {"AWS_SHARED_CREDENTIALS_FILE": "/nothing"}, skip_variables=True)
        == of_variables
    )
    assert s3_keys(file) == of_file
    assert s3_keys(file | {"AWS_PROFILE": "other"}) == of_other
    assert s3_keys(file | {"AWS_PROFILE": "none"}) is None


@pytest.mark.parametrize(
    "text", ["", "no file of this kind", "[default]\nx", "[default]\n[default]\n", "\0"]
)
def test_a_file_that_cannot_be_read_has_no_keys(text, tmp_path):
    path = tmp_path / "credentials"
    path.write_text(text)
    assert s3_keys({"AWS_SHARED_CREDENTIALS_FILE": str(path)}) is None


def test_the_region_comes_from_the_variables_or_the_config_file(tmp_path):
    path = tmp_path / "config"
    path.write_text("[default]\nregion = eu-west-1\n[profile far]\nregion = ap-east-1\n")
    file = {"AWS_CONFIG_FILE": str(path)}
    assert s3_region(file) == "eu-west-1"
    assert s3_region(file | {"AWS_PROFILE": "far"}) == "ap-east-1"
    assert s3_region(file | {"AWS_REGION": "r"}) == "r"
    assert s3_region(file | {"AWS_DEFAULT_REGION": "d"}) == "d"
    assert s3_region({"AWS_CONFIG_FILE": "/nothing"}) is None


def test_clients_are_made_once_for_each_timeout_and_anew_after_a_renewal():
    made = []

    def make(place, timeout, renewals):
        made.append((timeout, renewals))
        return object()

    clients = Clients(PLACE, make)
    first, bulk = clients.of(5.0), clients.of(60.0)
    assert clients.of(5.0) is first
    clients.renew(first)
    clients.renew(bulk)  # the other thread's answer is about the same old credentials
    assert clients.of(5.0) is not first
    assert made == [(5.0, 0), (60.0, 0), (5.0, 1)]


def test_an_endpoint_that_is_not_encrypted_is_refused_unless_that_is_said(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://me:hidden@localhost:1")
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(UsageError, match="http://localhost:1, which is not encrypted") as caught:
        make_client(PLACE, 5.0, 0)
    assert "AWS_ALLOW_HTTP=true" in caught.value.hint
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert make_client(PLACE, 5.0, 0)


def test_a_missing_extra_is_one_sentence_with_the_cure(monkeypatch):
    real = builtins.__import__

    def without_obstore(name, *arguments, **options):
        if name.startswith("obstore"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_obstore)
    with pytest.raises(UsageError, match="needs the package obstore") as caught:
        make_client(PLACE, 5.0, 0)
    assert "pip install '.[s3]'" in caught.value.hint


def test_settings_that_obstore_refuses_are_said_without_a_traceback(monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "perhaps")
    with pytest.raises(UsageError, match="settings for s3:// cannot be used") as caught:
        make_client(PLACE, 5.0, 0)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_the_other_clouds_clients_are_made(scheme, monkeypatch):
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    place = ObjectPlace(scheme=scheme, account="account", bucket="container", prefix="x")
    assert "container" in repr(make_client(place, 5.0, 0))
