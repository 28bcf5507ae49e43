"""The page of claims has the best figure of the stored reports for each claim of the catalogue."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain

import pytest
from stored_claims import PAGE, claims_page, findings, stored_values

from zerofleet.presets.theses.catalogue import load_thesis, thesis_names
from zerofleet.presets.theses.planning import plan
from zerofleet.strength.claims.tallies import Estimate
from zerofleet.strength.claims.verdicts import VERDICTS, Bar, verdict

THESES = PAGE.with_name("theses.md")
THESIS = load_thesis("connect_four_td")
FOUND = {
    "estimate": {"value": 86.3, "low": 84.0, "high": 88.3, "seeds": 1, "games": 1000, "interval": "games"},
    "figure": "games won, %",
}


def report(profile, *, seeds=1, games=1000, verdict="matched", **changed):
    claim = THESIS.experiments[0].claims[0]
    estimate = FOUND["estimate"] | {"seeds": seeds, "games": games}
    found = FOUND | {"text": claim.text, "bar": claim.as_json(), "estimate": estimate, "verdict": verdict} | changed
    return {"thesis": THESIS.name, "profile": profile, "experiments": [{"name": THESIS.experiments[0].name, "claims": [found]}]}


def first(reports):
    return findings(THESIS, reports)[0]


def test_the_stored_page_is_that_of_the_stored_reports():
    assert PAGE.read_text("utf-8") == claims_page(stored_values()), "python tests/reproduce/stored_claims.py writes it again"


def test_the_list_of_reports_counts_no_verdict_that_they_lack():
    counted = 0
    for line in THESES.read_text("utf-8").splitlines():
        if (page := re.search(r"\(theses/(\w+\.html)\)", line)) and line.startswith("|"):
            stated = {word: int(number) for number, word in re.findall(rf"(\d+) ({'|'.join(VERDICTS)})", line.split("|")[-2])}
            claims = [claim for one in stored_values()[page[1]]["experiments"] for claim in one["claims"]]
            assert stated.items() <= Counter(claim["verdict"] for claim in claims).items() or "of th" in line, line
            assert all(number <= sum(claim["verdict"] == word for claim in claims) for word, number in stated.items()), line
            counted += bool(stated)
    assert counted > 20


def test_the_verdict_of_a_stored_claim_is_that_of_its_figure_and_its_bar():
    for page, report in stored_values().items():
        claims = [claim for one in report["experiments"] for claim in one["claims"]]
        assert report["verdicts"] == {name: sum(claim["verdict"] == name for claim in claims) for name in report["verdicts"]}
        for claim in claims:
            if claim["verdict"] in {"beaten", "matched", "missed"}:
                assert claim["verdict"] == verdict(Estimate(**claim["estimate"]), Bar(**claim["bar"])), (page, claim["text"])


# Of a question, by the verdict on its claim; a claim of no difference, or of a little less at most, may be "level".
ANSWERS = {
    "beaten": ("confirmed", "level"),
    "matched": ("confirmed", "level"),
    "missed": ("refuted",),
    "undecided": ("undecided",),
}


def test_each_row_of_a_question_has_verdict_figure_seeds_and_report_of_a_claim():
    claims = PAGE.read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in THESES.read_text("utf-8").splitlines()]
    asked = [row[3:7] for row in rows if len(row) == 8 and "](theses/" in row[6]]
    for answer, figure, seeds, report in asked:
        stated = re.match(r"\S+ \(\S+ to \S+\)", figure)
        assert stated, figure
        link = report[report.index("](") :]
        trained = r"\w+; " + ("1" if seeds == "none" else seeds) + r"[; ]"
        found = [line for line in claims if f"| {stated[0]} |" in line and link in line and re.search(trained, line)]
        fitting = [name for name, words in ANSWERS.items() if answer.startswith(words)]
        assert any(f"[{name}]" in line for line in found for name in fitting), (answer, figure, report)
    assert len(asked) > 30


def test_the_page_names_each_arm_without_a_run_in_full():
    (stated,) = (one for one in THESES.read_text("utf-8").split("\n\n") if one.startswith("**Arms without a run"))
    missing = {f"{one.experiment}.{one.arm}" for name in thesis_names() for one in plan(load_thesis(name), "full", seeds=1)}
    for _, experiment, run in runs_in_full():
        missing -= {f"{experiment['name']}.{arm}" for arm in run}
    assert set(re.findall(r"`(\w+\.\w+)`", stated)) == missing


def test_no_experiment_is_expected_to_take_three_times_as_long_as_its_stored_report():
    compared = 0
    for thesis, experiment, run in runs_in_full():
        stages = experiment["stages"]
        if measured := stages.get("core_minutes"):
            planned = plan(thesis, "full", seeds=1, only=[f"{experiment['name']}.{arm}" for arm in run])
            seconds = sum(one.seconds for one in planned if one.experiment == experiment["name"] and one.arm in run)
            assert seconds / 60.0 * stages["complete"] / len(run) <= 3.0 * measured, experiment["command"]
            compared += 1
    assert compared > 20


def runs_in_full():
    """Yield thesis, experiment of a stored report of the profile full, and the names of its arms with figures."""
    for report in stored_values().values():
        thesis = load_thesis(report["thesis"])
        for one in report["experiments"] if report["profile"] == "full" else ():
            measured = {found["arm"] for found in one["measures"]}
            run = {arm["name"] for arm in one["arms"]}
            run |= {name for name, arm in thesis.experiment(one["name"]).arms.items() if arm.label in measured}
            if run:
                yield thesis, one, run


def test_each_claim_of_the_catalogue_has_a_row_in_its_order():
    claims = [claim for name in thesis_names() for one in load_thesis(name).experiments for claim in one.claims]
    found = chain.from_iterable(findings(load_thesis(name), {}) for name in thesis_names())
    assert [one.claim for one in found] == claims


def test_a_figure_of_the_profile_full_counts_before_one_of_more_seeds_in_quick():
    assert first({"a.html": report("full"), "b.html": report("quick", seeds=3)}).page == "a.html"


@pytest.mark.parametrize("more", [{"seeds": 3}, {"games": 2000}], ids=["seeds", "games"])
def test_of_two_figures_of_a_profile_that_of_more_seeds_or_games_counts(more):
    assert first({"a.html": report("full"), "b.html": report("full", **more)}).page == "b.html"
    assert first({"a.html": report("full", **more), "b.html": report("full")}).page == "a.html"


@pytest.mark.parametrize(
    "changed",
    [{"verdict": "not run"}, {"bar": {"better": "higher", "match": 1.0, "beat": None, "tolerance": 5.0}}, {"text": "another"}],
    ids=["not run", "other bar", "other claim"],
)
def test_a_report_that_does_not_decide_the_present_claim_is_not_shown(changed):
    assert first({"a.html": report("full", **changed)}).verdict == "not run"


def test_the_row_of_a_claim_has_figure_interval_size_and_a_link_to_its_report():
    assert "| 86.3 (84.0 to 88.3) | games won, % | full; 1; 1,000 | [matched](theses/a.html) |" in claims_page(
        {"a.html": report("full")}
    )
