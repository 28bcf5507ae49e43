"""Fuzz every method and every format: `make fuzz FUZZ_ARGS="--seconds 10 --only ModelInfer"`.

Prints a line for each target, the faults with the files that hold their inputs, and the totals. Exit code 1 if there is a
fault. Inputs with new outcomes are kept in the corpus folder, and mutated further by the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_campaign import Limit, Logged, Report, campaign, replay, watched_logs
from fuzz_formats import format_targets
from fuzz_services import service_targets
from fuzz_targets import ACCEPTED

CORPUS = Path("build/fuzz")


def main() -> int:
    """Run the campaigns and report."""
    options = _options()
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if os.access(memory, os.W_OK) else None) as root,
        watched_logs() as logged,
    ):
        reports = asyncio.run(_all(options, Path(root), logged))
    return _conclude(reports, options.corpus)


async def _all(options: argparse.Namespace, root: Path, logged: Logged) -> list[Report]:
    reports = []
    async with AsyncExitStack() as stack:
        targets = [*format_targets(root), *await stack.enter_async_context(service_targets(root))]
        chosen = [target for target in targets if not options.only or any(word in target.name for word in options.only)]
        if options.replay:
            return [await replay(chosen, options.replay, _content(options.replay), logged)]
        gc.collect()
        gc.freeze()  # a look at the memory after a target then takes milliseconds
        limit = Limit(options.messages, options.seconds)
        for target in chosen:
            reports.append(await campaign(target, seed=options.seed, limit=limit, logged=logged, corpus=options.corpus))
            _show(reports[-1])
    return reports


def _content(path: Path) -> bytes:
    return path.read_bytes()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="time of each target (default: 10)")
    parser.add_argument("--messages", type=int, default=10**12, help="inputs of each target, if sooner (default: no limit)")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="targets whose names hold one of the words")
    parser.add_argument("--seed", type=int, default=1, help="seed of the inputs (default: 1)")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help=f"folder of kept inputs (default: {CORPUS})")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="repeat one input")
    return parser.parse_args()


def _show(report: Report) -> None:
    refused = ", ".join(f"{count:,} {name}" for name, count in report.outcomes.most_common() if name != ACCEPTED)
    rate = report.messages / max(report.seconds, 1e-9)
    counts = f"{report.messages:>9,} inputs {rate:>7,.0f}/s {report.outcomes[ACCEPTED]:>8,} accepted"
    print(f"{report.name:<52} {counts} {report.growth_bytes / 2**20:>6.1f} MiB  {refused}", flush=True)
    for fault in report.faults:
        print(f"    FAULT {fault}", flush=True)


def _conclude(reports: list[Report], corpus: Path) -> int:
    inputs, faults = sum(report.messages for report in reports), sum(len(report.faults) for report in reports)
    accepted, seconds = sum(report.outcomes[ACCEPTED] for report in reports), sum(report.seconds for report in reports)
    processor_s = sum(report.processor_s for report in reports)
    refused = sum(report.refused for report in reports)
    counts = (
        f"{inputs:,} inputs, {accepted:,} accepted, {refused:,} refused; {processor_s:.0f} processor seconds, {seconds:.0f} s"
    )
    print(f"\n{len(reports)} targets, {counts}; {faults} different faults")
    if faults:
        print(f'inputs of faults: {corpus / "faults"}; repeat one with FUZZ_ARGS="--replay FILE"')
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
