"""What a setting may say of the model store's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference_server.settings import ServerSettings
from zerofleet.errors import ConfigurationError
from zerofleet.service.settings import open_run_store, read_settings
from zerofleet.storage.model_store import DirectoryStore, open_model_store
from zerofleet.storage.model_store.location import parse_location, split_url
from zerofleet.storage.run_paths import RunPaths


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("s3://models", ("models", "")),
        ("s3://models/", ("models", "")),
        ("s3://my.bucket-1/team/a/", ("my.bucket-1", "team/a")),
    ],
)
def test_a_url_names_bucket_and_prefix(url, parts):
    assert split_url(parse_location(url)) == parts


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://", "names no bucket"),
        ("s3:///models", "names no bucket"),
        ("s3://Models/x", "names no bucket"),
        ("s3://key:secret@bucket/x", "AWS_ENDPOINT_URL"),
        ("s3://http://localhost:9000/bucket", "AWS_ENDPOINT_URL"),
        ("s3://bucket/a//b", "has the prefix"),
        ("s3://bucket/../x", "has the prefix"),
        ("gs://bucket/models", "gs://… is not known; want a directory or s3://bucket/prefix"),
    ],
)
def test_an_unusable_url_is_refused_with_the_wanted_form(url, says):
    with pytest.raises(ConfigurationError, match=says):
        open_model_store(url)


def test_a_path_is_a_directory(tmp_path):
    for location in (tmp_path, str(tmp_path)):
        store = open_model_store(location)
        assert isinstance(store, DirectoryStore)
        assert store.root == tmp_path


def test_the_setting_accepts_path_and_url_and_the_cache_is_in_the_run_directory():
    settings, origins = read_settings(ServerSettings, ["--run-dir", "/r"], {"ZEROFLEET_MODEL_STORE": "s3://bucket/models/"})
    assert (settings.model_store, settings.model_cache) == ("s3://bucket/models", Path("/r/model_cache"))
    assert (origins["model_store"], origins["model_cache"]) == ("environment", "run directory")
    assert read_settings(ServerSettings, ["--model-store", "x/y"], {})[0].model_store == Path("x/y")


def test_the_error_for_an_unusable_setting_names_the_setting():
    with pytest.raises(ConfigurationError, match=r"setting model_store.*want a directory or s3"):
        read_settings(ServerSettings, ["--model-store", "ftp://bucket/models"], {})


def test_the_command_line_uses_the_store_that_the_environment_names(tmp_path, monkeypatch, object_server):
    monkeypatch.delenv("ZEROFLEET_MODEL_STORE", raising=False)
    assert open_run_store(RunPaths(tmp_path)).location == str(tmp_path / "models")
    monkeypatch.setenv("ZEROFLEET_MODEL_STORE", "s3://bucket/models")
    assert open_run_store(RunPaths(tmp_path)).location == "s3://bucket/models"
