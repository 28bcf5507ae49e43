"""One version of a Zerofleet model inside Triton's Python backend; a copy of this file stands beside every `model.pt`.

It needs torch and numpy alone. (Triton 2.51 answers with empty tensors when its Python has numpy 2: keep numpy below 2
there.) A model whose file was changed, or which does not answer its golden positions as its exporter did, is refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os

import numpy as np
import torch
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # Triton provides it

POLICY_TOLERANCE = 5e-3  # as zerofleet.manifests has them
VALUE_TOLERANCE = 2e-2


class TritonPythonModel:
    """What Triton's Python backend calls."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load and check the version; raising here makes Triton refuse it and keep the others."""
        directory = os.path.join(args["model_repository"], args["model_version"])  # noqa: PTH118
        with open(os.path.join(directory, "manifest.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            manifest = json.load(file)
        path = os.path.join(directory, "model.pt")  # noqa: PTH118
        with open(path, "rb") as file:  # noqa: PTH123
            digest = hashlib.sha256(file.read()).hexdigest()
        if digest != manifest["files"]["model.pt"]["sha256"]:
            raise pb_utils.TritonModelException(f"{path} has sha256 {digest}, not what its manifest says; it was changed")
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = torch.device(f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu")
        self.module = torch.jit.load(path, map_location=self.device)  # type: ignore[no-untyped-call]
        if on_gpu:
            self.module = self.module.half()
        self.module = torch.jit.freeze(self.module.eval())
        self._check_golden(manifest["golden"])

    def execute(self, requests: list) -> list:  # type: ignore[type-arg]
        """Answer several requests with one pass: their rows are put together and the answers cut apart again."""
        states = [pb_utils.get_input_tensor_by_name(request, "state__0").as_numpy() for request in requests]
        legal = [pb_utils.get_input_tensor_by_name(request, "legal__1").as_numpy() for request in requests]
        policy, value = self._evaluate(np.concatenate(states), np.concatenate(legal))
        cuts = np.cumsum([len(rows) for rows in states])[:-1]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("policy__0", p), pb_utils.Tensor("value__1", v)])
            for p, v in zip(np.split(policy, cuts), np.split(value, cuts))  # noqa: B905 - this runs on Python 3.8 too
        ]

    def _evaluate(self, states: np.ndarray, legal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            policy, value = self.module(
                torch.from_numpy(np.ascontiguousarray(states)).to(self.device),
                torch.from_numpy(np.ascontiguousarray(legal)).to(self.device),
            )
        return policy.cpu().numpy(), value.float().cpu().numpy()

    def _check_golden(self, golden: dict) -> None:  # type: ignore[type-arg]
        def read(name: str, dtype: str) -> np.ndarray:
            return np.frombuffer(base64.b64decode(golden[name]), dtype).reshape(golden["positions"], -1)

        policy, value = self._evaluate(read("states", "u1").copy(), read("legal", "<i2").copy())
        for name, got, tolerance in (("policy", policy, POLICY_TOLERANCE), ("value", value, VALUE_TOLERANCE)):
            off = float(np.abs(got.astype(np.float32) - read(name, "<f4")).max())
            if not off <= tolerance:  # written so that a nan is refused
                raise pb_utils.TritonModelException(f"golden positions: {name} off by {off}, want at most {tolerance}")
