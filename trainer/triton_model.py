"""One version of a Zerofleet model inside Triton's Python backend; every `model.pt` is stored with a copy of this file.

It needs torch and numpy alone. (Triton 2.51 returns empty tensors when its Python has numpy 2: keep numpy below 2 there.)
A model whose file was changed, or whose evaluation of its golden positions differs from the exporter's, is refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # Triton provides it

POLICY_TOLERANCE = 5e-3  # as zerofleet.contracts.manifests has them
VALUE_TOLERANCE = 2e-2
HEAD_TOLERANCE = 1e-2


class TritonPythonModel:
    """Entry points of Triton's Python backend."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load and check the version; an exception makes Triton refuse it and keep the others."""
        directory = os.path.join(args["model_repository"], args["model_version"])  # noqa: PTH118
        with open(os.path.join(directory, "manifest.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            manifest = json.load(file)
        path = os.path.join(directory, "model.pt")  # noqa: PTH118
        with open(path, "rb") as file:  # noqa: PTH123
            digest = hashlib.sha256(file.read()).hexdigest()
        if digest != manifest["files"]["model.pt"]["sha256"]:
            raise pb_utils.TritonModelException(f"{path} has sha256 {digest}, which differs from its manifest; it was changed")
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = torch.device(f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu")
        self.module = torch.jit.load(path, map_location=self.device)  # type: ignore[no-untyped-call]
        if on_gpu:
            self.module = self.module.half()
        self.module = torch.jit.freeze(self.module.eval())
        # All versions share one configuration; the outputs of this one are in its manifest. Schema 1 has two heads.
        self.outputs = ["policy__0", "value__1"] + [f"head__{index}" for index in range(2, len(manifest["heads"]))]
        self._check_golden(manifest["golden"])

    def execute(self, requests: list[Any]) -> list[Any]:
        """Evaluate several requests in one pass: their rows are concatenated and the outputs split again."""
        states = [pb_utils.get_input_tensor_by_name(request, "state__0").as_numpy() for request in requests]
        legal = [pb_utils.get_input_tensor_by_name(request, "legal__1").as_numpy() for request in requests]
        answers = self._evaluate(np.concatenate(states), np.concatenate(legal))
        cuts = np.cumsum([len(rows) for rows in states])[:-1]
        parts = zip(*(np.split(answer, cuts) for answer in answers))  # noqa: B905 - this runs on Python 3.8 too
        return [self._response(request, part) for request, part in zip(requests, parts)]  # noqa: B905

    def _response(self, request: Any, arrays: Sequence[np.ndarray]) -> Any:
        """Return the requested tensors only."""
        wanted = request.requested_output_names()
        if missing := [name for name in wanted if name not in self.outputs]:
            text = f"unknown output {', '.join(sorted(missing))}; this version has {', '.join(self.outputs)}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(text, pb_utils.TritonError.INVALID_ARG))
        named = zip(self.outputs, arrays)  # noqa: B905
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in named if name in wanted])

    def _evaluate(self, states: np.ndarray, legal: np.ndarray) -> list[np.ndarray]:
        """Return policy, value and extra heads, in their wire types."""
        with torch.inference_mode():
            answers = self.module(
                torch.from_numpy(np.ascontiguousarray(states)).to(self.device),
                torch.from_numpy(np.ascontiguousarray(legal)).to(self.device),
            )
        return [answer.cpu().numpy() for answer in answers]

    def _check_golden(self, golden: dict[str, Any]) -> None:
        def read(text: str, dtype: str) -> np.ndarray:
            return np.frombuffer(base64.b64decode(text), dtype).reshape(golden["positions"], -1)

        answers = self._evaluate(read(golden["states"], "u1").copy(), read(golden["legal"], "<i2").copy())
        wanted = [golden["policy"], golden["value"], *golden.get("heads", [])]
        if not len(answers) == len(wanted) == len(self.outputs):
            text = (
                f"the manifest lists {len(self.outputs)} heads and {len(wanted)} golden ones, the module returns {len(answers)}"
            )
            raise pb_utils.TritonModelException(text)
        tolerances = [POLICY_TOLERANCE, VALUE_TOLERANCE] + [HEAD_TOLERANCE] * (len(wanted) - 2)
        for name, got, want, tolerance in zip(self.outputs, answers, wanted, tolerances):  # noqa: B905
            off = float(np.abs(got.astype(np.float32) - read(want, "<f4")).max())
            if not off <= tolerance:  # written so that a nan is refused
                raise pb_utils.TritonModelException(f"golden positions: {name} off by {off}, want at most {tolerance}")
