"""Values of PromQL queries over made-up series: the part of the language that the project's alerts and scalers use.

promql-parser parses and checks types; this module computes as Prometheus 3 does: a range excludes its start, and a sample lasts
for five minutes. What is not here raises `NotImplementedError`, so that a query never gets the value of another. Where promtool
is installed, the same cases run in it too (`prometheus_checks.py`).
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import promql_parser as ast

Labels = frozenset[tuple[str, str]]
Samples = list[tuple[float, float]]  # second, value; NaN marks the end of a series
Series = dict[Labels, Samples]
Vector = dict[Labels, float]

LOOKBACK_S = 300.0
NAME = "__name__"
_STEPS = re.compile(
    r"(?P<begin>-?[\d.]+)(?:(?P<step>[+-][\d.]+)?x(?P<times>\d+))?|(?P<none>_)(?:x(?P<absent>\d+))?|(?P<end>stale)"
)
_COMPARES: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_COMPUTES: dict[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum, "max": max, "min": min, "avg": lambda values: math.fsum(values) / len(values),
}  # fmt: skip


def read_series(given: Iterable[tuple[str, str]], interval_s: float) -> Series:
    """Return the series of pairs of selector and values in promtool's notation, such as `0+60x10 _x3 stale`."""
    read: Series = {}
    for selector, values in given:
        labels = _labels(ast.parse(selector))
        read[labels] = [(number * interval_s, value) for number, value in enumerate(_expanded(values)) if value is not None]
    return read


def value(expression: str, series: Series, at_s: float) -> Vector:
    """Return what a query yields at a time, a number as a vector without labels. Raises `ValueError` if it is not PromQL."""
    found = _Query(series, at_s).of(ast.parse(expression))
    return found if isinstance(found, dict) else {frozenset(): found}


def unnamed(labels: Labels) -> Labels:
    """Return the labels without the metric's name."""
    return _only(labels, lambda name: name != NAME)


class _Query:
    """Values at one time."""

    def __init__(self, series: Series, at_s: float) -> None:
        self._series, self._at_s = series, at_s

    def of(self, node: ast.Expr) -> Any:
        """Return the value of a node: a vector, or a number."""
        match node:
            case ast.NumberLiteral():
                return node.val
            case ast.ParenExpr():
                return self.of(node.expr)
            case ast.VectorSelector():
                return self._selected(node)
            case ast.AggregateExpr():
                return self._aggregate(node)
            case ast.Call():
                return self._call(node)
            case ast.BinaryExpr():
                return self._binary(node)
        raise NotImplementedError(f"{type(node).__name__} in {node.prettify()}")

    def _selected(self, node: ast.VectorSelector) -> Vector:
        time_s = self._at_s - _seconds(node.offset)
        found = {}
        for labels, samples in self._matching(node):
            known = [value for at_s, value in samples if time_s - LOOKBACK_S < at_s <= time_s]
            if known and not math.isnan(known[-1]):
                found[labels] = known[-1]
        return found

    def _matching(self, node: ast.VectorSelector) -> Iterable[tuple[Labels, Samples]]:
        if node.at is not None or node.matchers.or_matchers:
            raise NotImplementedError(node.prettify())
        for labels, samples in self._series.items():
            texts = dict(labels)
            if node.name in (None, texts[NAME]) and all(
                _matches(each, texts.get(each.name, "")) for each in node.matchers.matchers
            ):
                yield labels, samples

    def _ranges(self, node: ast.Expr) -> tuple[Series, float, float]:
        """Return samples of a range, its begin and its end."""
        if not isinstance(node, ast.MatrixSelector | ast.SubqueryExpr):
            raise NotImplementedError(f"a range of {node.prettify()}")
        selector = node.vector_selector if isinstance(node, ast.MatrixSelector) else node
        end_s = self._at_s - _seconds(selector.offset)
        begin_s = end_s - _seconds(node.range)
        if isinstance(node, ast.MatrixSelector):
            all_of = {
                labels: [(at_s, value) for at_s, value in samples if begin_s < at_s <= end_s and not math.isnan(value)]
                for labels, samples in self._matching(selector)
            }
            return {labels: samples for labels, samples in all_of.items() if samples}, begin_s, end_s
        if node.step is None or node.at is not None:
            raise NotImplementedError(node.prettify())
        found: Series = defaultdict(list)
        step_s = _seconds(node.step)
        for number in itertools.count(max(0, math.floor(begin_s / step_s) + 1)):  # before 0 there are no samples
            if (time_s := number * step_s) > end_s:
                return found, begin_s, end_s
            for labels, each in _Query(self._series, time_s).of(node.expr).items():
                found[labels].append((time_s, each))
        raise AssertionError

    def _aggregate(self, node: ast.AggregateExpr) -> Vector:
        groups = defaultdict(list)
        for labels, each in self.of(node.expr).items():
            groups[_grouped(labels, node.modifier)].append(each)
        if (fold := _AGGREGATES.get(str(node.op))) is None or node.param is not None:
            raise NotImplementedError(node.prettify())
        return {labels: fold(values) for labels, values in groups.items()}

    def _call(self, node: ast.Call) -> Vector:
        name, arguments = node.func.name, node.args
        if name in _OVER_RANGES:
            series, begin_s, end_s = self._ranges(arguments[0])
            computed = ((unnamed(labels), _OVER_RANGES[name](samples, begin_s, end_s)) for labels, samples in series.items())
            return {labels: each for labels, each in computed if each is not None}
        values = [self.of(argument) for argument in arguments]
        if name == "absent":
            return {} if values[0] else {_equalities(arguments[0]): 1.0}
        if name == "time":
            return self._at_s
        if name == "vector":
            return {frozenset(): values[0]}
        if name == "clamp":
            return {unnamed(labels): max(values[1], min(values[2], each)) for labels, each in values[0].items()}
        if name == "round":
            step = values[1] if values[1:] else 1.0
            return {unnamed(labels): math.floor(each / step + 0.5) * step for labels, each in values[0].items()}
        if name == "histogram_quantile":
            return _quantiles(values[0], values[1])
        raise NotImplementedError(f"the function {name}")

    def _binary(self, node: ast.BinaryExpr) -> Any:
        left, right, sign = self.of(node.lhs), self.of(node.rhs), str(node.op)
        modifier = node.modifier
        keeps_all = modifier is not None and modifier.return_bool
        if isinstance(left, dict) and isinstance(right, dict):
            matched = _matching_labels(modifier)
            if sign in ("and", "or", "unless"):
                return _set_operation(sign, left, right, matched)
            return _one_to_one(sign, left, right, matched, keeps_all=keeps_all)
        if isinstance(left, dict):
            pairs = {labels: (each, right, each) for labels, each in left.items()}
        elif isinstance(right, dict):
            pairs = {labels: (left, each, each) for labels, each in right.items()}
        else:
            return _combined(sign, left, right, left, keeps_all=True)
        kept = unnamed if keeps_all or sign not in _COMPARES else _same
        computed = ((kept(labels), _combined(sign, *pair, keeps_all=keeps_all)) for labels, pair in pairs.items())
        return {labels: each for labels, each in computed if each is not None}


# -- labels ------------------------------------------------------------------------------------------------------------


def _same(labels: Labels) -> Labels:
    return labels


def _only(labels: Labels, wanted: Callable[[str], bool]) -> Labels:
    return frozenset((name, text) for name, text in labels if wanted(name))


def _labels(selector: Any) -> Labels:
    return _equalities(selector) | {(NAME, selector.name)}


def _equalities(node: Any) -> Labels:
    """Return the labels that a selector states, those of `absent`; none for another expression."""
    if not isinstance(node, ast.VectorSelector):
        return frozenset()
    return frozenset((each.name, each.value) for each in node.matchers.matchers if str(each.op) == "MatchOp.Equal")


def _matches(matcher: ast.Matcher, text: str) -> bool:
    kind = str(matcher.op).removeprefix("MatchOp.")
    equal = text == matcher.value if kind.endswith("Equal") else re.fullmatch(matcher.value, text) is not None
    return equal != kind.startswith("Not")


def _grouped(labels: Labels, modifier: ast.AggModifier | None) -> Labels:
    if modifier is None:
        return frozenset()
    by = str(modifier.type).endswith("By")
    return _only(labels, lambda name: (name in modifier.labels) == by and name != NAME)


def _matching_labels(modifier: ast.BinModifier | None) -> Callable[[Labels], Labels]:
    """Return the function from labels to those by which two vectors are matched."""
    if modifier is not None and modifier.group_labels is not None:
        raise NotImplementedError("group_left and group_right")
    if modifier is None or modifier.matching is None:
        return unnamed
    on, names = str(modifier.matching.type).endswith("Include"), modifier.matching.labels
    return lambda labels: _only(labels, lambda name: (name in names) == on and name != NAME)


# -- operators ---------------------------------------------------------------------------------------------------------


def _set_operation(sign: str, left: Vector, right: Vector, matched: Callable[[Labels], Labels]) -> Vector:
    if sign == "or":
        known = {matched(labels) for labels in left}
        return left | {labels: each for labels, each in right.items() if matched(labels) not in known}
    known = {matched(labels) for labels in right}
    return {labels: each for labels, each in left.items() if (matched(labels) in known) == (sign == "and")}


def _one_to_one(sign: str, left: Vector, right: Vector, matched: Callable[[Labels], Labels], *, keeps_all: bool) -> Vector:
    others = {matched(labels): each for labels, each in right.items()}
    if len(others) < len(right) or len({matched(labels) for labels in left}) < len(left):
        raise ValueError(f"many-to-many matching in {sign}")
    found = {}
    for labels, each in left.items():
        if (key := matched(labels)) in others:
            computed = _combined(sign, each, others[key], each, keeps_all=keeps_all)
            if computed is not None:
                found[key] = computed
    return found


def _combined(sign: str, left: float, right: float, kept: float, *, keeps_all: bool) -> float | None:
    """Return the result for a pair: of a comparison 0 or 1 with `bool`, else the value it keeps, or None."""
    if sign in _COMPARES:
        holds = _COMPARES[sign](left, right)
        return float(holds) if keeps_all else kept if holds else None
    if sign == "/":
        return left / right if right else math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
    if sign not in _COMPUTES:
        raise NotImplementedError(f"the operator {sign}")
    return _COMPUTES[sign](left, right)


# -- functions ---------------------------------------------------------------------------------------------------------


def _change(samples: Samples, begin_s: float, end_s: float, *, counter: bool) -> float | None:
    """Return the change over a range, extrapolated to its ends (`extrapolatedRate` of Prometheus)."""
    if len(samples) < 2:
        return None
    (first_s, first), (last_s, last) = samples[0], samples[-1]
    change = last - first
    if counter:
        change += math.fsum(before for (_, before), (_, after) in itertools.pairwise(samples) if after < before)
    sampled_s = last_s - first_s
    between_s = sampled_s / (len(samples) - 1)
    to_begin_s, to_end_s = (
        gap_s if gap_s < 1.1 * between_s else between_s / 2 for gap_s in (first_s - begin_s, end_s - last_s)
    )
    if counter and change > 0 and first >= 0:
        to_begin_s = min(to_begin_s, sampled_s * first / change)  # a counter was not below zero
    return change * (sampled_s + to_begin_s + to_end_s) / sampled_s


def _rate(samples: Samples, begin_s: float, end_s: float) -> float | None:
    change = _change(samples, begin_s, end_s, counter=True)
    return None if change is None else change / (end_s - begin_s)


def _slope(samples: Samples, begin_s: float, end_s: float) -> float | None:
    """Return the slope of the line of least squares, a second."""
    if len(samples) < 2:
        return None
    mean_s = math.fsum(at_s for at_s, _ in samples) / len(samples)
    mean = math.fsum(each for _, each in samples) / len(samples)
    spread = math.fsum((at_s - mean_s) ** 2 for at_s, _ in samples)
    return math.fsum((at_s - mean_s) * (each - mean) for at_s, each in samples) / spread


_OVER_RANGES: dict[str, Callable[[Samples, float, float], float | None]] = {
    "rate": _rate,
    "increase": lambda samples, begin_s, end_s: _change(samples, begin_s, end_s, counter=True),
    "delta": lambda samples, begin_s, end_s: _change(samples, begin_s, end_s, counter=False),
    "deriv": _slope,
    "max_over_time": lambda samples, begin_s, end_s: max(each for _, each in samples),
}


def _quantiles(share: float, buckets: Vector) -> Vector:
    """Return a quantile of each histogram, linear within its bucket (`histogram_quantile` with buckets of `le`)."""
    histograms = defaultdict(list)
    for labels, count in buckets.items():
        histograms[_only(labels, lambda name: name not in (NAME, "le"))].append((float(dict(labels)["le"]), count))
    found = {}
    for labels, counted in histograms.items():
        counted.sort()
        if counted[-1][0] != math.inf or len(counted) < 2 or not counted[-1][1]:
            found[labels] = math.nan
            continue
        rank = share * counted[-1][1]
        place = next(number for number, (_, count) in enumerate(counted) if count >= rank)
        if place == len(counted) - 1:
            found[labels] = counted[-2][0]
            continue
        low, below = counted[place - 1] if place else (0.0, 0.0)
        high, count = counted[place]
        found[labels] = low + (high - low) * (rank - below) / (count - below)
    return found


# -- notation ----------------------------------------------------------------------------------------------------------


def _seconds(duration: timedelta | None) -> float:
    return duration.total_seconds() if duration else 0.0


def _expanded(values: str) -> Iterable[float | None]:
    """Yield the samples that a notation stands for; None for a missing one."""
    for word in values.split():
        if (found := _STEPS.fullmatch(word)) is None:
            raise ValueError(f"{word!r} is not in promtool's notation")
        if found["end"]:
            yield math.nan
        elif found["none"]:
            yield from itertools.repeat(None, int(found["absent"] or 1))
        else:
            begin, step = float(found["begin"]), float(found["step"] or 0)
            yield from (begin + number * step for number in range(int(found["times"] or 0) + 1))
