"""Model store: versions of models and the champion pointer, in a directory or an object store.

store = open_model_store("run/models")
store = open_model_store("s3://bucket/prefix", cache=Path("run/model_cache"))    # needs the extra `s3`
"""

from zerofleet.contracts.manifests import Champion, Manifest, StoredFile
from zerofleet.storage.model_store.base import ModelStore
from zerofleet.storage.model_store.directory import DirectoryStore
from zerofleet.storage.model_store.location import StoreLocation
from zerofleet.storage.model_store.opening import open_model_store

__all__ = ["Champion", "DirectoryStore", "Manifest", "ModelStore", "StoreLocation", "StoredFile", "open_model_store"]
