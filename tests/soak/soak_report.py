"""What a soak found, as a page and a picture."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from soak_faults import KINDS, Harm, games_allowed_lost
from soak_logs import Explanation, Line, event_of, explain
from soak_memory import Sample, Slope, slope

from zerofleet.storage.files import atomic_publish

WARM_UP_S = 180.0  # models of a dozen versions have come and gone, the replay window is full again
LIMIT_MIB_PER_MIN = 1.0
COLOURS = ("#0b6e99", "#c0562b", "#4c8b3f", "#7a5195", "#8a6d1d")


@dataclass(slots=True)
class Findings:
    """Everything noted while the cluster was hurt, in one slice or in several."""

    seed: int
    workers: int
    minutes: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    harms: list[Harm] = field(default_factory=list)
    loud: list[Line] = field(default_factory=list)
    not_made: dict[str, str] = field(default_factory=dict)
    slices: int = 1
    unfinished: int = 0  # slices that were ended before they wrote anything
    published: int = 0
    stored: int = 0
    twice: int = 0
    lost: int = 0
    unasked: int = 0
    champion: int = 0

    def slopes(self) -> dict[str, Slope | None]:
        """Return the slope of each service's memory."""
        services = dict.fromkeys(sample.service for sample in self.samples)
        return {name: slope([s for s in self.samples if s.service == name], warm_up_s=WARM_UP_S) for name in services}

    def restarts(self) -> int:
        """Return how often containers were started again within a slice."""
        lives = {(sample.service, sample.life) for sample in self.samples}
        containers = {life.partition(" ")[0] for _, life in lives}
        return len(lives) - self.slices * len(containers)

    def explained(self) -> Mapping[tuple[str, str, str], int]:
        """Return how often each service said which explained thing, and why."""
        found = ((line, explain(line, self.harms)) for line in self.loud)
        return Counter((line.service, event_of(line), why.why) for line, why in found if isinstance(why, Explanation))

    def broken_rules(self) -> list[str]:
        """Return what promises were broken, in words; none is allowed."""
        allowed = games_allowed_lost(self.harms)
        counted = {"lost": (self.lost, allowed), "stored twice": (self.twice, 0), "never published": (self.unasked, allowed)}
        return [f"{games} games {how}, at most {most} may be" for how, (games, most) in counted.items() if games > most]

    def unexplained(self) -> list[Line]:
        """Return the warnings and errors that nothing explains."""
        return [line for line in self.loud if explain(line, self.harms) is None]


def write(findings: Findings, folder: Path) -> str:
    """Write report.md, memory.svg and unexplained.log; return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    page = "\n".join(_page(findings)) + "\n"
    atomic_publish(folder / "report.md", page.encode())
    lines = [f"{line.at_s:8.1f} {line.service}: {line.text}\n" for line in findings.unexplained()]
    atomic_publish(folder / "unexplained.log", "".join(lines).encode())
    _draw(findings, folder / "memory.svg")
    return page


def _page(found: Findings) -> list[str]:
    recovery = sorted(harm.recovery_s for harm in found.harms if harm.recovery_s is not None) or [0.0]
    lines = [
        f"{found.minutes:.0f} minutes in {found.slices} slices, seed {found.seed}, {found.workers} workers; "
        f"{platform.machine()}, {platform.release()}",
        "",
        "| fault | times | of which |",
        "| --- | ---: | --- |",
    ]
    lines += [_fault_row(found, kind.name) for kind in KINDS]
    lines += [
        "",
        "| what | result |",
        "| --- | --- |",
        f"| slices without findings | {found.unfinished} |",
        f"| healthy again after | median {recovery[len(recovery) // 2]:.0f} s, at most {recovery[-1]:.0f} s |",
        f"| containers started again | {found.restarts()} |",
        f"| games published | {found.published} |",
        f"| games stored | {found.stored} |",
        f"| lost, stored twice, never published | {found.lost}, {found.twice}, {found.unasked} |",
        f"| games that damaged bytes may have cost | {games_allowed_lost(found.harms)} |",
        f"| champion at the end | version {found.champion} |",
        f"| warnings and errors: explained, unexplained | {sum(found.explained().values())}, {len(found.unexplained())} |",
        "",
        f"| memory after {WARM_UP_S:.0f} s of a life | lives | samples | at most, MiB | slope, MiB/min | 95 % interval |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [_memory_row(found.samples, name, each) for name, each in found.slopes().items()]
    lines += ["", "| service | warning or error | times | explained by |", "| --- | --- | ---: | --- |"]
    lines += [f"| {service} | {event} | {n} | {why} |" for (service, event, why), n in sorted(found.explained().items())]
    return lines


def _fault_row(found: Findings, kind: str) -> str:
    made = [harm for harm in found.harms if harm.kind == kind]
    if not made and kind in found.not_made:
        return f"| {kind} | not made | {found.not_made[kind]} |"
    parts = Counter(f"{harm.detail['file']}: {harm.detail.get('outcome')}" if kind == "byte" else harm.service for harm in made)
    return f"| {kind} | {len(made)} | {', '.join(f'{name} {count}' for name, count in sorted(parts.items()))} |"


def _memory_row(samples: Sequence[Sample], name: str, each: Slope | None) -> str:
    most = max(sample.mib for sample in samples if sample.service == name)
    if each is None:
        return f"| {name} | 0 | 0 | {most:.0f} | no life was long enough | |"
    interval = f"{each.low:+.2f} to {each.high:+.2f}"
    return f"| {name} | {each.lives} | {each.samples} | {most:.0f} | {each.mib_per_min:+.2f} | {interval} |"


def _draw(found: Findings, path: Path) -> None:
    from matplotlib import rc_context  # noqa: PLC0415  (slow to import)
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context({"svg.hashsalt": "zerofleet", "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(8.0, 4.2), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        services = list(dict.fromkeys(sample.service for sample in found.samples))
        for name, colour in zip(services, COLOURS, strict=False):
            label: str | None = name
            for life in dict.fromkeys(s.life for s in found.samples if s.service == name):
                own = [s for s in found.samples if s.life == life]
                axes.plot([s.at_s / 60 for s in own], [s.mib for s in own], color=colour, linewidth=1.0, label=label)
                label = None
        for harm in found.harms:
            axes.axvline(harm.at_s / 60, color="#d9dde1", linewidth=0.7, zorder=0)
        axes.set(xlabel="minutes; grey: a fault", ylabel="memory, MiB", ylim=(0, None))
        axes.set_title("Memory of each container while the cluster is hurt", loc="left", fontsize=11.0)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", frameon=False, fontsize=8.0)
        figure.savefig(path, metadata={"Date": None})
