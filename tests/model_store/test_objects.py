"""What an object store does besides the contract: races, answers that are lost, servers that lie or are away."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session
from botocore.loaders import JSONFileLoader

from zerofleet.errors import ConfigurationError, CorruptModel, ModelNotFound, StaleEpoch, Unavailable
from zerofleet.storage.model_store import bucket, objects, open_model_store

MODEL = "tic_tac_toe"
SECRET = "secret-of-the-tests"


@pytest.fixture
def kind() -> str:
    return "objects"


@pytest.fixture
def published(place, files, manifest):
    """The place of a store with three versions."""
    for fill in (1.0, 2.0, 3.0):
        place.store.publish(MODEL, files(fill), manifest)
    return place


def on_requests(store, event, handler) -> None:
    store._bucket._client.meta.events.register(event, handler)


def answers(store, status, code):
    """Have every request answered so, without a server."""

    class Raw:
        def stream(self, **_):
            yield f"<Error><Code>{code}</Code><Message>as it was told</Message></Error>".encode()

    on_requests(store, "before-send.s3", lambda request, **_: AWSResponse(request.url, status, {}, Raw()))


def cut_replies(store, name):
    """Have replies with this object end in the middle, as from a server that closes the connection."""
    session = URLLib3Session()

    def cut(request, **_):
        if request.method != "GET" or not request.url.endswith(name):
            return None
        whole = session.send(request)
        return AWSResponse(request.url, whole.status_code, whole.headers, io.BytesIO(whole.content[: len(whole.content) // 2]))

    on_requests(store, "before-send.s3", cut)


def test_the_files_of_triton_are_in_its_layout(published, files, manifest):
    published.store.publish(MODEL, files(4.0), manifest, config="name: 'tic_tac_toe'\n")
    names = published.names()
    assert {"config.pbtxt", "4/model.pt", "4/model.py"} < names
    # Whatever has a folder of its own is a version: other names would be loaded, or complained about.
    assert {name.partition("/")[0] for name in names if "/" in name} == {"1", "2", "3", "4"}
    assert published.client.list_objects_v2(Bucket=published.bucket, Delimiter="/", Prefix="models/")["KeyCount"] == 1


def test_of_two_concurrent_writers_of_the_pointer_one_wins_and_the_other_gets_an_error(published, monkeypatch):
    first, second = published.reopened(), published.reopened()
    first.write_champion(MODEL, 1, epoch=1, reason="first", after=0)
    replace = bucket.Bucket.replace

    def overtaken(self, key, *arguments):
        if self is first._bucket and key.endswith("champion.json"):
            second.write_champion(MODEL, 2, epoch=2, reason="quicker", after=1)
        return replace(self, key, *arguments)

    monkeypatch.setattr(bucket.Bucket, "replace", overtaken)
    with pytest.raises(StaleEpoch, match="another holder leads"):
        first.write_champion(MODEL, 3, epoch=9, reason="slower", after=1)
    assert [(champion.version, champion.epoch) for champion in published.store.history(MODEL)] == [(1, 1), (2, 2)]


def test_concurrent_gatekeepers_with_the_same_champion_promote_once(published):
    stores = [published.reopened() for _ in range(4)]
    for store in stores:
        store.verify(MODEL, 2)
    start = Barrier(len(stores))

    def promote(number):
        start.wait()
        try:
            return stores[number].write_champion(MODEL, 2, epoch=1 + number, reason=str(number), after=0)
        except StaleEpoch:
            return None

    with ThreadPoolExecutor(len(stores)) as pool:
        won = [champion for champion in pool.map(promote, range(len(stores))) if champion is not None]
    assert len(won) == 1
    assert published.store.history(MODEL) == won


def test_a_history_line_that_a_successor_has_added_already_is_not_missed(published, monkeypatch):
    first, second = published.reopened(), published.reopened()
    replace = bucket.Bucket.replace

    def overtaken(self, key, *arguments):
        if self is first._bucket and key.endswith("champion_history.jsonl"):
            second.write_champion(MODEL, 2, epoch=2, reason="next", after=1)
        return replace(self, key, *arguments)

    monkeypatch.setattr(bucket.Bucket, "replace", overtaken)
    assert first.write_champion(MODEL, 1, epoch=1, reason="first", after=0).epoch == 1
    assert [champion.epoch for champion in first.history(MODEL)] == [1, 2]


def test_a_version_without_its_manifest_is_invisible_and_removed_when_it_is_old(published, files, manifest, monkeypatch):
    published.remove("2/manifest.json")
    assert published.store.versions(MODEL) == [1, 3]
    with pytest.raises(ModelNotFound):
        published.store.directory(MODEL, 2)
    published.store.publish(MODEL, files(4.0), manifest)
    assert "2/model.pt" in published.names(), "its publisher may still be at work"
    monkeypatch.setattr(objects, "ABANDONED_S", -60.0)
    assert published.store.publish(MODEL, files(5.0), manifest) == 5
    assert not [name for name in published.names() if name.startswith("2/")]
    assert published.store.versions(MODEL) == [1, 3, 4, 5]


def test_a_publisher_that_took_too_long_gives_up_before_its_files_are_swept(place, files, manifest, monkeypatch):
    monkeypatch.setattr(objects, "UPLOAD_LIMIT_S", -1.0)
    with pytest.raises(Unavailable, match="took too long"):
        place.store.publish(MODEL, files(), manifest)
    assert place.store.versions(MODEL) == []


def test_a_deleted_version_leaves_no_object(published):
    published.store.delete(MODEL, 2)
    assert not [name for name in published.names() if name.startswith("2/")]
    with pytest.raises(ModelNotFound, match="latest stored are: 1, 3"):
        published.store.delete(MODEL, 2)


def test_a_corrupt_object_is_fetched_once_more_and_then_refused_without_a_copy(published, monkeypatch):
    content = bytearray(published.read("1/model.pt"))
    content[-1] ^= 1
    published.write("1/model.pt", bytes(content))
    fetched, download = [], bucket.Bucket.download
    monkeypatch.setattr(bucket.Bucket, "download", lambda self, one, path: (fetched.append(one.key), download(self, one, path)))
    with pytest.raises(CorruptModel, match=rf"{published.location}/{MODEL}/1 is corrupt.*1/model\.pt has sha256"):
        published.store.directory(MODEL, 1)
    assert fetched.count(f"{MODEL}/1/model.pt") == 2
    assert published.copies() == []


def test_a_damaged_download_is_repaired_by_a_second_one(published, monkeypatch):
    download, damaged = bucket.Bucket.download, []

    def damage_once(self, one, path):
        download(self, one, path)
        if not damaged:
            damaged.append(path.write_bytes(path.read_bytes()[:-1]))

    monkeypatch.setattr(bucket.Bucket, "download", damage_once)
    assert published.store.verify(MODEL, 1).version == 1
    assert damaged


def test_a_damaged_local_copy_is_fetched_again(published):
    (published.store.directory(MODEL, 1) / "model.pt").write_bytes(b"")
    assert published.store.verify(MODEL, 1).version == 1
    assert len(published.copies()) == 1


def test_a_version_that_changes_in_the_store_is_not_taken_from_an_old_copy(published):
    published.store.verify(MODEL, 1)
    published.write("1/model.py", b"import os\n")
    with pytest.raises(CorruptModel, match=r"model\.py"):
        published.store.verify(MODEL, 1)


def test_an_unreachable_server_is_unavailable_and_calls_succeed_when_it_is_back(
    published, object_server, files, manifest, monkeypatch
):
    monkeypatch.setattr(bucket, "ATTEMPTS", 1)
    store = published.reopened()
    object_server.stop()
    try:
        for call in (
            lambda: store.champion(MODEL),
            lambda: store.verify(MODEL, 1),
            lambda: store.publish(MODEL, files(4.0), manifest),
            lambda: store.write_champion(MODEL, 1, epoch=1, reason="first"),
        ):
            with pytest.raises(Unavailable, match=rf"{object_server.url} does not answer.*AWS_ENDPOINT_URL") as failure:
                call()
            assert SECRET not in str(failure.value)
    finally:
        object_server.start()
    assert store.publish(MODEL, files(4.0), manifest) == 4
    assert store.write_champion(MODEL, 4, epoch=1, reason="back").version == 4


def test_a_write_whose_reply_was_lost_is_recognised_by_its_retry(place, files, manifest):
    lost, session = [], URLLib3Session()

    def lose_the_answer(request, **_):
        if request.method == "PUT" and "If-None-Match" in request.headers and request.url not in lost:
            lost.append(request.url)
            session.send(request)
            raise ConnectionClosedError(endpoint_url=request.url)

    on_requests(place.store, "before-send.s3", lose_the_answer)
    assert place.store.publish(MODEL, files(), manifest) == 1
    champion = place.store.write_champion(MODEL, 1, epoch=1, reason="first", after=0)
    assert {url.rpartition("/")[2] for url in lost} >= {".last_version", "manifest.json", "champion.json"}
    assert place.store.history(MODEL) == [champion]


def test_a_history_whose_reply_ended_early_is_not_written_back(published):
    published.store.write_champion(MODEL, 1, epoch=1, reason="first", after=0)
    published.store.write_champion(MODEL, 2, epoch=2, reason="second", after=1)
    stored = published.read("champion_history.jsonl")
    unlucky = published.reopened()
    cut_replies(unlucky, "champion_history.jsonl")
    for call in (lambda: unlucky.history(MODEL), lambda: unlucky.write_champion(MODEL, 3, epoch=3, reason="third", after=2)):
        with pytest.raises(Unavailable, match="IncompleteReadError"):
            call()
    assert published.read("champion_history.jsonl") == stored
    assert published.store.champion(MODEL).version == 2


def test_a_version_whose_manifest_arrived_in_part_is_not_taken_for_a_corrupt_one(published):
    unlucky = published.reopened()
    cut_replies(unlucky, "manifest.json")
    with pytest.raises(Unavailable, match="IncompleteReadError"):
        unlucky.verify(MODEL, 1)


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_a_server_that_ignores_conditions_is_refused_before_the_first_write(place, files, manifest, header):
    on_requests(place.store, "before-sign.s3.PutObject", lambda request, **_: request.headers.__delitem__(header))
    with pytest.raises(ConfigurationError, match="ignores If-None-Match and If-Match"):
        place.store.publish(MODEL, files(), manifest)
    assert place.names() == {".conditions"}


@pytest.mark.parametrize(
    ("status", "code", "kind_of_error", "says"),
    [
        (403, "AccessDenied", ConfigurationError, "rights of the key"),
        (403, "InvalidAccessKeyId", ConfigurationError, "AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", ConfigurationError, "AWS_SECRET_ACCESS_KEY"),
        (404, "NoSuchBucket", ConfigurationError, "create the bucket"),
        (501, "NotImplemented", ConfigurationError, "lacks a feature"),
        (400, "ExpiredToken", Unavailable, "as it was told"),
    ],
)
def test_an_access_error_states_the_remedy_and_no_secret(place, files, manifest, status, code, kind_of_error, says):
    answers(place.store, status, code)
    for call in (lambda: place.store.versions(MODEL), lambda: place.store.champion(MODEL)):
        with pytest.raises(kind_of_error, match=rf"{place.location}.*{code}.*{says}") as failure:
            call()
        assert SECRET not in str(failure.value)


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (403, "AccessDenied", "rights of the key"),
        (403, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"),
        (403, "RequestTimeTooSkewed", "the clock"),
        (404, "NoSuchBucket", "create the bucket"),
    ],
)
def test_a_key_that_is_refused_after_a_first_success_is_unavailable(place, files, manifest, status, code, says):
    assert place.store.versions(MODEL) == []
    answers(place.store, status, code)
    for call in (lambda: place.store.versions(MODEL), lambda: place.store.publish(MODEL, files(), manifest)):
        with pytest.raises(Unavailable, match=rf"{place.location}.*{code}.*{says}.*these settings were accepted before"):
            call()


def test_a_feature_that_the_server_lacks_stays_an_error_of_the_settings_after_a_first_success(place):
    assert place.store.versions(MODEL) == []
    answers(place.store, 501, "NotImplemented")
    with pytest.raises(ConfigurationError, match="lacks a feature"):
        place.store.versions(MODEL)


def test_an_overloaded_server_is_retried_and_then_unavailable(place, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    asked = []
    answers(place.store, 503, "SlowDown")
    on_requests(place.store, "request-created.s3", lambda **_: asked.append(1))
    with pytest.raises(Unavailable, match="SlowDown"):
        place.store.champion(MODEL)
    assert len(asked) == bucket.ATTEMPTS


def test_a_missing_bucket_is_named_in_the_error(object_server, tmp_path):
    with pytest.raises(ConfigurationError, match=r"NoSuchBucket; create the bucket no-such-bucket"):
        open_model_store("s3://no-such-bucket/models", cache=tmp_path).models()


def test_missing_credentials_are_named_in_the_error(place, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with pytest.raises(ConfigurationError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        open_model_store(place.location, cache=tmp_path).models()


def test_a_further_store_does_not_read_the_description_of_the_interface_again(published, monkeypatch):
    published.store.models()
    monkeypatch.setattr(JSONFileLoader, "load_file", None)
    assert published.reopened().models() == [MODEL]


def test_without_the_extra_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.delitem(sys.modules, "zerofleet.storage.model_store.bucket")
    with pytest.raises(ConfigurationError, match=r"boto3 is not installed; pip install zerofleet\[s3\]"):
        open_model_store("s3://bucket/models")
