"""Contents of a version besides its hashes: tensors and pickles of its archive, and golden positions that fit."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save

from zerofleet.contracts import model_checks
from zerofleet.contracts.manifests import Golden
from zerofleet.errors import CorruptModel

MODEL = "tic_tac_toe"


@pytest.fixture
def kind() -> str:
    """Directories alone: both stores leave contents to `check_files`, and the contract of stores tests that they call it."""
    return "directory"


class Payload:
    """An object whose unpickling makes a directory."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def _float_storage(*, form: bytes = b"ctorch\nFloatStorage\n", key: bytes = b"0") -> bytes:
    """Return a pickle of one tensor storage, written as TorchScript does."""
    return b"\x80\x02((X\x07\x00\x00\x00storage" + form + b"X\x01\x00\x00\x00" + key + b"X\x03\x00\x00\x00cpuK\x02tQt."


@pytest.mark.parametrize("numbers", [[1.0, np.nan], [np.inf, 0.0]])
@pytest.mark.parametrize(("form", "dtype"), [(b"FloatStorage", "<f4"), (b"DoubleStorage", "<f8"), (b"HalfStorage", "<f2")])
def test_weights_that_are_not_finite_in_the_archive_alone_are_refused(
    store, files, manifest, make_archive, numbers, form, dtype
):
    pickled = _float_storage(form=b"ctorch\n" + form + b"\n")
    for content, fault in ((np.ones(2, dtype), None), (np.array(numbers, dtype), "model/data/0 is not finite")):
        model = make_archive(**{"data.pkl": pickled, "data/0": content.tobytes()})
        weights = save({"stem.weight": np.array([len(content.tobytes()), fault is None], np.float32)})
        version = store.publish(MODEL, {**files(), "model.pt": model, "weights.safetensors": weights}, manifest)
        if fault is None:
            assert store.verify(MODEL, version).version == version
        else:
            with pytest.raises(CorruptModel, match=fault):
                store.verify(MODEL, version)


@pytest.mark.parametrize("entry", ["data.pkl", "constants.pkl", "code/__torch__.py.debug_pkl", "extra/other.pkl"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_foreign_pickle_in_an_archive_is_refused_and_never_run(
    store, files, manifest, make_archive, tmp_path, entry, protocol
):
    payload = Payload(tmp_path / "was_run")
    evil = make_archive(**{entry: pickle.dumps(payload, protocol=protocol)})
    store.publish(MODEL, {**files(), "model.pt": evil}, manifest)
    with pytest.raises(CorruptModel, match="never writes"):
        store.verify(MODEL, 1)
    assert not payload.path.exists()


@pytest.mark.parametrize(
    "pickled",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02X\xff\xff\xff\xff.",
        b"\x80\x02U\x01aQ.",
        _float_storage(form=b"ctorch\nSecretStorage\n"),
        _float_storage(key=b"7"),
        b"\x80\x02cos\ngetcwd\n)R.",
    ],
)
def test_a_damaged_or_odd_pickle_in_an_archive_is_refused(store, files, manifest, make_archive, pickled):
    store.publish(MODEL, {**files(), "model.pt": make_archive(**{"data.pkl": pickled})}, manifest)
    with pytest.raises(CorruptModel):
        store.verify(MODEL, 1)


def test_weights_without_a_tensor_are_refused(store, files, manifest):
    store.publish(MODEL, {**files(), "weights.safetensors": save({})}, manifest)
    with pytest.raises(CorruptModel, match="holds no tensors"):
        store.verify(MODEL, 1)


def _set(array: np.ndarray, place: object, value: float) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda s, a, p, v: (s[:, :-1], a, p, v), id="a plane missing"),
        pytest.param(lambda s, a, p, v: (s, _set(a, (0, 0), 9), p, v), id="an action beyond the last"),
        pytest.param(lambda s, a, p, v: (s, _set(a, (-1, -1), -2), p, v), id="an action below -1"),
        pytest.param(lambda s, a, p, v: (s, a[:, ::-1], p[:, ::-1], v), id="padding first"),
        pytest.param(lambda s, a, p, v: (s, _set(a, 0, -1), _set(p, 0, 0), v), id="no action"),
        pytest.param(lambda s, a, p, v: (s, a, _set(p, (0, 0), np.nan), v), id="a nan"),
        pytest.param(lambda s, a, p, v: (s, a, _set(p, (0, 0), -0.5), v), id="a negative probability"),
        pytest.param(lambda s, a, p, v: (s, a, p / 2, v), id="a sum of one half"),
        pytest.param(lambda s, a, p, v: (s, a, _set(p, -1, 1 / 9), v), id="mass on padding"),
        pytest.param(lambda s, a, p, v: (s, a, p, _set(v, (0, 0), 2)), id="a value of 2"),
        pytest.param(lambda s, a, p, v: (s, a, p, np.zeros((len(v), 3))), id="a player more"),
        pytest.param(lambda s, a, p, v: (s, a, p, v, [np.zeros((len(v), 1))]), id="a head more"),
    ],
)
def test_golden_positions_that_fit_no_model_are_refused(store, files, manifest, damage):
    store.publish(MODEL, files(), replace(manifest, golden=Golden.of(*damage(*manifest.golden.arrays()))))
    with pytest.raises(CorruptModel, match="golden"):
        store.verify(MODEL, 1)


@pytest.mark.parametrize("positions", [0, -1, 7, 10**18, 10**30])
def test_a_wrong_number_of_golden_positions_is_refused(store, files, manifest, positions):
    golden = Golden(0, "", "", "", "") if positions == 0 else replace(manifest.golden, positions=positions)
    store.publish(MODEL, files(), replace(manifest, golden=golden))
    with pytest.raises(CorruptModel, match="golden"):
        store.verify(MODEL, 1)


def test_an_archive_whose_directory_points_before_its_beginning_is_refused(tmp_path, make_archive):
    path = tmp_path / "model.pt"
    content = bytearray(make_archive())
    place = content.rindex(b"PK\5\6") + 16  # of the offset of the directory
    offset = int.from_bytes(content[place : place + 4], "little")
    content[place : place + 4] = (offset + 1_000).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(CorruptModel, match="refusing to load it"):
        model_checks._check_archive(path, 1 << 20)
