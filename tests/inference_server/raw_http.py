"""A raw client of the HTTP server: bytes in, status, headers and body out."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from fake_network import MODEL

__all__ = ["Caller", "Reply", "as_json", "binary_request", "json_request", "post"]

INFER = f"/v2/models/{MODEL}/infer"


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert self.headers["content-type"] == "application/json"
        assert list(self.json) == ["error"]
        return self.json["error"]


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def open(cls, address: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Self]:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    async def ask(self, request: bytes) -> Reply:
        """Send bytes and return the next answer."""
        self.writer.write(request)
        return await self.reply(is_head=request.startswith(b"HEAD"))

    async def reply(self, *, is_head: bool = False) -> Reply:
        async with asyncio.timeout(60):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = b"" if is_head else await self.reader.readexactly(int(headers["content-length"]))
        return Reply(int(first.split()[1]), headers, body)

    async def is_closed(self) -> bool:
        """Wait for the server to close the connection; other bytes fail."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


async def ask(address: str, request: bytes, tls: ssl.SSLContext | None = None) -> Reply:
    """Send bytes over a connection of their own and return the answer."""
    async with Caller.open(address, tls) as caller:
        return await caller.ask(request)


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""]).encode()


def post(body: bytes, *headers: str, path: str = INFER) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: test", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def as_json(states: np.ndarray, legal: np.ndarray) -> dict[str, Any]:
    """The JSON of a well-formed request with numbers, to be spoilt."""
    return {
        "inputs": [
            {"name": "state__0", "datatype": "UINT8", "shape": list(states.shape), "data": states.ravel().tolist()},
            {"name": "legal__1", "datatype": "INT16", "shape": list(legal.shape), "data": legal.tolist()},
        ]
    }


def json_request(content: Any, *headers: str, path: str = INFER) -> bytes:
    return post(content if isinstance(content, bytes) else json.dumps(content).encode(), *headers, path=path)


def binary_request(states: np.ndarray, legal: np.ndarray, **parameters: Any) -> tuple[dict[str, Any], bytes]:
    """JSON and bytes of a well-formed request with binary data, to be spoilt."""
    contents = [states.tobytes(), legal.astype("<i2").tobytes()]
    content = as_json(states, legal) | {"parameters": parameters}
    for tensor, binary in zip(content["inputs"], contents, strict=True):
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": len(binary)}
    return content, b"".join(contents)


def with_binary(content: dict[str, Any], binary: bytes, *headers: str, json_length: str | None = None) -> bytes:
    text = json.dumps(content).encode()
    length = str(len(text)) if json_length is None else json_length
    return post(text + binary, f"Inference-Header-Content-Length: {length}", *headers)
