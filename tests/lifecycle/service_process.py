"""A small service run as a process by the tests; `--mode` says how it behaves."""

import asyncio
import os
import sys
from typing import ClassVar

from zerofleet.errors import ConfigurationError, Unavailable
from zerofleet.service.lifecycle import Service, run_service
from zerofleet.service.process_end import end_process
from zerofleet.service.settings import ServiceSettings, load_settings


class ProbeSettings(ServiceSettings):
    """A service of the tests."""

    SERVICE: ClassVar[str] = "trainer"
    mode: str = "good"


async def serve(service: Service) -> None:
    mode = service.settings.model_dump()["mode"]
    if mode == "refused":
        raise ConfigurationError("port 1 is taken; set another")

    async def say(what: str) -> None:
        sys.stdout.write(what + "\n")
        sys.stdout.flush()

    async def intake() -> None:
        await say(f"intake, ready={service.is_ready}")

    async def fails() -> None:
        raise RuntimeError("drain breaks")

    async def hangs() -> None:
        await asyncio.Event().wait()

    async def waits() -> None:
        await asyncio.to_thread(sys.stdin.readline)

    service.on_drain("intake", intake)
    further = {"drain_fails": fails, "drain_hangs": hangs, "drain_waits": waits}
    if mode in further:
        service.on_drain(mode, further[mode])
    service.on_drain("flush", lambda: say("flush"))
    service.ready("unix:/x")
    if mode == "fails_later":
        raise Unavailable("the far side went away")
    if mode == "ends":
        return
    await service.until_stopping(hangs())
    await say(f"left, pid={os.getpid()}")


if __name__ == "__main__":
    end_process(run_service(serve, load_settings(ProbeSettings, sys.argv[1:])))
