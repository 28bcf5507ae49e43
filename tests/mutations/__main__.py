"""`make mutate`: break each promise in the code on purpose, and require that a test of the promise fails.

Prints a table of all mutations. Exit codes: 0 every mutation is killed or argued to be equivalent; 1 some survived; 2 a patch
no longer applies, or the tests fail without a mutation.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

from mutations import ROOT, Mutation, StalePatch, chosen, load
from trial import Bench, Outcome, tests_of

HEADER = "| promise | mutation | breaks | killed by | s |\n| --- | --- | --- | --- | ---: |"


def main() -> int:
    """Run the chosen mutations and print their table."""
    options = _options()
    mutations = [mutation for mutation in chosen(load(), options.k) if mutation.ci or not options.ci]
    if not mutations:
        print(f"error: no mutation matches {options.k!r}", file=sys.stderr)
        return 2
    try:
        for mutation in mutations:
            mutation.mutated(ROOT)
    except StalePatch as error:
        print(f"error: a patch no longer applies: {error}", file=sys.stderr)
        return 2
    began_s, outcomes, bench = time.monotonic(), {}, Bench(options.jobs)
    print(HEADER, flush=True)
    try:
        for stage in ("own",) if options.quick else ("own", "processes"):
            left = [mutation for mutation in mutations if not outcomes or not _spoilt(outcomes[mutation.title])]
            if not options.trust:
                promises = list(dict.fromkeys(mutation.promise for mutation in left))
                originals = list(bench.run([({}, tests_of(promise, stage)) for promise in promises]))
                if any(map(_spoilt, originals)):
                    return _report_originals(promises, originals)
            tried = bench.run([(mutation.mutated(ROOT), tests_of(mutation.promise, stage)) for mutation in left])
            for mutation, outcome in zip(left, tried, strict=True):
                earlier_s = outcomes[mutation.title].seconds if mutation.title in outcomes else 0.0
                outcomes[mutation.title] = replace(outcome, seconds=earlier_s + outcome.seconds)
                if _spoilt(outcome) or options.quick or stage == "processes":
                    print(_row(mutation, outcomes[mutation.title]), flush=True)
    finally:
        bench.close()
    return _conclude([(mutation, outcomes[mutation.title]) for mutation in mutations], time.monotonic() - began_s)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("-k", default="", metavar="WORDS", help='promises or parts of names: -k p4, -k "p4 p8", -k lease')
    parser.add_argument("--jobs", type=int, default=2, help="mutations that run at a time (default: 2)")
    parser.add_argument("--quick", action="store_true", help="only the tests that start no process")
    parser.add_argument("--ci", action="store_true", help="only the mutations that CI tries, one of each promise")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a mutation first")
    return parser.parse_args()


def _spoilt(outcome: Outcome) -> bool:
    return bool(outcome.killed_by or outcome.fault)


def _report_originals(promises: list[str], originals: list[Outcome]) -> int:
    for promise, found in zip(promises, originals, strict=True):
        if _spoilt(found):
            cause = f"{found.killed_by} failed" if found.killed_by else found.fault
            print(f"error: the tests of {promise} do not pass without a mutation: {cause}", file=sys.stderr)
    return 2


def _row(mutation: Mutation, outcome: Outcome) -> str:
    killer = f"`{outcome.killed_by}`" if outcome.killed_by else f"equivalent: {mutation.equivalent}"
    if not outcome.killed_by and not mutation.equivalent:
        killer = "TESTS DID NOT RUN" if outcome.fault else "SURVIVED"
    name = mutation.name.replace("-", " ")
    return f"| {mutation.promise.upper()} | {name} | {mutation.breaks} | {killer} | {outcome.seconds:.0f} |"


def _conclude(outcomes: list[tuple[Mutation, Outcome]], seconds: float) -> int:
    killed = [mutation for mutation, outcome in outcomes if outcome.killed_by]
    faults = [(mutation, outcome) for mutation, outcome in outcomes if outcome.fault]
    argued = [m for m, outcome in outcomes if m.equivalent and not _spoilt(outcome)]
    survivors = [m for m, outcome in outcomes if not m.equivalent and not _spoilt(outcome)]
    print(f"\n{len(killed)} of {len(outcomes)} killed, {len(argued)} equivalent, {len(survivors)} survived; {seconds:.0f} s")
    for mutation, outcome in faults:
        print(f"error: the tests of {mutation.title} did not run:\n{outcome.fault}", file=sys.stderr)
    for mutation in [mutation for mutation in killed if mutation.equivalent]:
        print(f"error: {mutation.title} is killed, so it is not equivalent; remove the argument", file=sys.stderr)
    for mutation in survivors:
        print(f"error: {mutation.title} survived: {mutation.breaks}", file=sys.stderr)
    if faults:
        return 2
    return 1 if survivors or any(mutation.equivalent for mutation in killed) else 0


if __name__ == "__main__":
    sys.exit(main())
