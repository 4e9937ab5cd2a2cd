"""The benchmark's own arithmetic: what counts as equal, which ratio is reported, what is written.

No peer but scikit-learn is needed, and no time decides: where seconds matter they are made up.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.peers import find
from benchmarks.problems import LOSSES, Spec, make
from benchmarks.records import CaseResult, Measured
from numpy.testing import assert_allclose
from scipy.optimize import check_grad

from benchmarks import cases, child, harness, plots, records, rules, tables

SPECS = [
    Spec("logit", 60, 3),
    Spec("logit", 60, 3, "ill", scale=10.0),
    Spec("logit", 60, 40, "sparse", per_row=5),
    Spec("probit", 60, 3, scale=None),
    Spec("poisson", 60, 3),
    Spec("gamma", 60, 3, scale=None),
    Spec("softmax", 60, 3, classes=4),
]


def row(family, seconds, **fields):
    fields = {"value": 100.0, "gap": 0.0, "reached": True} | fields
    times = () if seconds is None else (seconds,) * 3
    method = fields.pop("method", f"made_up.{family}")
    label = fields.pop("label", family)
    return Measured(method, label, family, fields.pop("threads", None), math.nan, times, **fields)


def result(*rows, **fields):
    made = CaseResult(
        case="made-up",
        title="a made-up case",
        mode="quick",
        spec=Spec("logit", 1_000, 30)._asdict(),
        input_bytes=240_000,
        machine={"processor": "an abacus", "cores": 2, "system": "", "python": "3.11", "packages": {"numpy": "2.4"}},
        load=(0.1, 0.2),
        measured=rows,
        verdicts=(),
    )
    return replace(made, **fields)


# --- problems ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.kind}-{spec.columns}")
def test_the_gradient_is_that_of_the_objective(spec):
    problem = make(spec)
    shape = (spec.classes, spec.d) if spec.kind == "softmax" else (spec.d,)
    w = np.random.default_rng(0).normal(size=shape) / 4

    def value(u):
        return problem.objective(u.reshape(shape)).value

    # the norm of the gradient is the steepest slope: check it along the direction that differences find
    h = 1e-6
    slopes = np.array([(value(w.ravel() + h * e) - value(w.ravel() - h * e)) / (2 * h) for e in np.eye(w.size)])
    assert_allclose(problem.objective(w).gradient_norm, np.linalg.norm(slopes), rtol=1e-6)


@pytest.mark.parametrize("kind", sorted(LOSSES.keys() - {"softmax"}))
def test_slopes_are_derivatives_of_losses(kind):
    y, loss = np.array([1.0, 0.0, 1.0] if kind in ("logit", "probit") else [2.0, 1.0, 3.0]), LOSSES[kind]
    f = np.array([0.3, -1.2, 2.0])
    assert check_grad(lambda f: loss.value(y, f), lambda f: loss.slope(y, f), f) < 1e-6


def test_a_problem_is_the_same_in_every_process():
    first, second = make(SPECS[0]), make(SPECS[0])
    assert_allclose(first.X, second.X, rtol=0)
    assert (first.y == second.y).all()


def test_ill_conditioned_columns_have_the_condition_that_is_said():
    X = make(Spec("logit", 20_000, 6, "ill")).X
    assert 800 < np.linalg.cond(X) < 1_250  # 1,000 up to the spread of a sample covariance, some sqrt(d/n)


# --- gaps and equal answers ----------------------------------------------------------------------------------------


def test_the_gap_is_relative_to_the_best_and_never_taken_from_what_failed():
    assert records.relative_gap(101.0, 100.0) == 0.01
    assert records.relative_gap(-99.0, -100.0) == 0.01
    assert records.best_known([math.nan, 3.0, math.inf, 2.0]) == 2.0
    assert math.isnan(records.best_known([math.nan]))


def test_answers_are_judged_against_the_best_of_all_not_against_ours():
    ours, peer, limit = harness.judged([row("ours", 1, value=100.1), row("newton", 2), row("limit", 1)], 1e-8)
    assert not ours.reached
    assert_allclose(ours.gap, 1e-3)
    assert peer.reached and peer.gap == 0
    assert limit.family == "limit"


def test_a_probe_stops_at_the_loosest_tolerance_that_gets_there():
    spec = SPECS[0]
    name = "scikit_learn.lbfgs"
    problem = make(spec)
    best = problem.judge(find("scikit_learn.newton-cholesky").read(find(name).fit(problem, 1e-12), problem)).value
    lines = list(child.probe({"spec": spec, "method": name, "best": best, "accuracy": 1e-10}))
    gaps = [records.relative_gap(line["value"], best) for line in lines if line["threads"] is None]
    assert gaps[-1] <= 1e-10 and all(gap > 1e-10 for gap in gaps[:-1])
    assert {line["threads"] for line in lines} == {None, 1}


def test_without_an_optimum_to_compare_with_the_gradient_decides():
    spec = SPECS[0]
    problem = make(spec)
    method = find("scikit_learn.newton-cholesky")
    best = problem.judge(method.read(method.fit(problem, 1e-12), problem)).value
    lines = list(child.probe({"spec": spec, "method": "scikit_learn.lbfgs", "best": None, "accuracy": 1e-8}))
    for line in lines:
        assert line["value"] - best <= problem.farthest(line["gradient_norm"])
    assert records.relative_gap(lines[-1]["value"], best) <= 1e-8


def test_ours_stops_where_the_others_do_and_the_default_is_named_beside_it():
    problem = make(Spec("logit", 50_000, 8))
    best = problem.judge(find("ours.logistic").read(find("ours.logistic").fit(problem, math.nan), problem)).value
    job = {"spec": problem.spec, "method": "ours.logistic_as_exact", "best": best, "accuracy": 1e-8}
    last = list(child.probe(job))[-1]
    assert records.relative_gap(last["value"], best) <= 1e-8
    ours = row("ours", 2.0, label="credibly"), replace(row("ours", 1.0, label="as exact"), tolerance=1e-3)
    verdict = rules.Faster(4).judge(result(*ours, row("newton", 5.0)))
    assert verdict.found == "5× (1 s; newton 5 s); at its default tolerance 2.5×" and verdict.met
    alone = rules.Faster(4).judge(result(ours[0], row("newton", 5.0)))
    assert alone.found == "2.5× (2 s; newton 5 s)" and not alone.met


def test_ours_and_scikit_learn_agree_on_the_objective():
    problem = make(SPECS[0])
    ours, theirs = find("ours.logistic"), find("scikit_learn.newton-cholesky")
    judged = [problem.judge(method.read(method.fit(problem, 1e-12), problem)) for method in (ours, theirs)]
    assert_allclose(judged[0].value, judged[1].value, rtol=1e-12)
    assert max(item.gradient_norm for item in judged) < 1e-6


def test_a_child_that_fails_says_why_and_names_no_place():
    job = {"job": "probe", "spec": SPECS[0], "method": "scikit_learn.unheard-of", "best": None, "accuracy": 1e-8}
    report = harness.child(job, 60)
    assert report.lines == [] and report.note == "failed: KeyError: 'unheard-of'"


def test_a_child_reports_what_it_fitted():
    job = {"job": "probe", "spec": SPECS[0], "method": "scikit_learn.lbfgs", "best": None, "accuracy": 1e-8}
    report = harness.child(job, 60)
    assert {line["threads"] for line in report.lines} == {None, 1} and report.note == ""
    assert report.lines[0]["input_bytes"] == make(SPECS[0]).input_bytes


# --- turns ---------------------------------------------------------------------------------------------------------


def test_runs_alternate():
    order = []
    actions = [lambda name=name: order.append(name) or 1.0 for name in "ab"]
    times = child.in_turns(actions, seconds=math.inf, most=3)
    assert order == list("ababab")
    assert [len(taken) for taken in times] == [3, 3]
    assert [len(taken) for taken in child.in_turns(actions, seconds=0, most=10)] == [2, 2]


def test_a_time_from_a_probe_does_not_beat_a_median_of_turns():
    probed, turned = replace(row("other", 1), times=(1.0,)), row("newton", 2)
    assert records.fastest([probed, turned]) is turned
    assert records.fastest([probed]) is probed


def test_slow_peers_and_worse_threads_have_no_turns():
    fast, worse, slow = (
        row("newton", 1, method="a"),
        row("newton", 2, method="a", threads=1),
        row("other", 11, method="b"),
    )
    lost = row("other", 1, method="c", reached=False)
    ours = row("ours", 100)
    assert harness.worth_turns([ours, fast, worse, slow, lost]) == [ours, fast]


# --- verdicts ------------------------------------------------------------------------------------------------------


def test_where_fits_take_minutes_the_times_of_the_probes_count():
    case = next(case for case in cases.CASES if not case.turns)
    rows = [row("ours", 10.0), row("other", 150.0)]
    assert harness.take_turns(case, rows, harness.BUDGETS["full"]) is rows  # no process is started


def test_the_ratio_is_to_the_fastest_peer_that_got_there():
    rows = row("ours", 0.1), row("newton", 0.5), row("first-order", 0.2, reached=False), row("other", 0.9)
    assert rules.Faster(4).judge(result(*rows)).met
    assert not rules.Faster(6).judge(result(*rows)).met
    assert rules.Faster(6, ("other",)).judge(result(*rows)).met
    assert rules.Faster(2, ("first-order",)).judge(result(*rows)).met is None


def test_what_is_not_at_the_optimum_has_not_won():
    verdict = rules.Faster(2).judge(result(row("ours", 0.1, reached=False, gap=1e-3), row("newton", 9)))
    assert verdict.met is False and "gap 1.0e-03" in verdict.found
    assert rules.Faster(2).judge(result(row("ours", None, note="stopped after 9 s"), row("newton", 9))).met is False


def test_a_peer_that_was_stopped_counts_with_the_time_it_was_given():
    def verdict(stopped):
        peer = row("first-order", None, reached=False, stopped=stopped, note="stopped")
        return rules.Faster(50, ("first-order",)).judge(result(row("ours", 0.1), peer))

    assert verdict(6.0).met is True and "more than 60×" in verdict(6.0).found
    assert verdict(4.0).met is None  # it might have needed just a little more


def test_a_pass_is_added_to_the_peer():
    rows = row("newton", 1.0), row("limit", 0.2, method="limits.hessian")
    assert rules.WithinPasses(1.5).judge(result(row("ours", 1.29), *rows)).met
    assert not rules.WithinPasses(1.5).judge(result(row("ours", 1.31), *rows)).met


def test_memory_is_a_share_of_the_input_and_a_constant():
    def met(extra):
        return rules.Memory(0.1, 200).judge(result(row("ours", 1, extra_bytes=extra), input_bytes=10**9)).met

    assert met(299_000_000) and not met(301_000_000)


def test_better_and_faster_compares_with_the_best_score_not_the_fastest_peer():
    peers = row("other", 1, value=0.60), row("other", 30, value=0.50)
    assert rules.BetterAndFaster(10).judge(result(row("ours", 2, value=0.49), *peers)).met
    assert not rules.BetterAndFaster(10).judge(result(row("ours", 2, value=0.55), *peers)).met
    assert not rules.BetterAndFaster(10).judge(result(row("ours", 4, value=0.49), *peers)).met


# --- writing -------------------------------------------------------------------------------------------------------


def test_a_result_survives_its_file(tmp_path):
    made = result(
        row("ours", 0.1, extra_bytes=7), row("newton", None, note="stopped after 20 s", value=math.nan, gap=math.nan)
    )
    made = replace(made, verdicts=(rules.Faster(2).judge(made),))
    path = records.save(made, tmp_path)
    (tmp_path / "other.json").write_text('{"rows": []}')  # another script's
    (back,) = records.load(tmp_path)
    assert json.loads(path.read_text())["measured"][1]["gap"] is None  # strict JSON has no NaN
    assert tables.terminal(back) == tables.terminal(made)
    assert back.measured[0] == replace(made.measured[0], tolerance=back.measured[0].tolerance)
    assert back.verdicts == made.verdicts


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0123456, "12.3 ms"), (2.5, "2.5 s"), (4e-5, "40 µs"), (math.nan, "–"), (261.6, "262 s")]
)
def test_times_are_written_in_the_unit_that_fits(seconds, text):
    assert rules.time(seconds) == text


def test_the_page_says_what_was_missed_with_both_numbers():
    made = result(row("ours", 0.1), row("newton", 0.15, label="a peer", threads=1))
    made = replace(made, verdicts=(rules.Faster(2).judge(made),))
    page = tables.page([made])
    assert "| a made-up case | 2× the fastest peer | 1.5× (100 ms; a peer 150 ms) | **missed** |" in page
    assert "| a peer, 1 thread | 150 ms | 1.5 |" in page
    assert "an abacus, 2 cores" in page


def test_the_page_says_that_the_machine_was_busy():
    assert "busy" not in tables.circumstances([result()])
    assert "busy" in tables.circumstances([result(load=(0.5, 9.0))])


def test_every_row_of_a_table_has_the_same_number_of_cells():
    lines = tables.table(("a", "b"), [("x | y", "1"), ("z", "2")]).splitlines()
    assert lines == ["| a | b |", "| --- | --: |", "| x \\| y | 1 |", "| z | 2 |"]


def test_pictures_need_two_sizes(tmp_path):
    small = result(row("ours", 0.1), row("newton", 0.2))
    assert plots.draw([small], tmp_path) == []
    large = replace(small, spec=small.spec | {"n": 10_000})
    assert [path.name for path in plots.draw([small, large], tmp_path)] == ["bench_rows.png"]


# --- the table of cases --------------------------------------------------------------------------------------------


def test_cases_have_names_of_their_own_and_quick_ones_are_part_of_all():
    assert len(set(cases.NAMES)) == len(cases.NAMES)
    quick = cases.chosen("quick")
    assert 0 < len(quick) < len(cases.chosen("full")) == len(cases.CASES)
    assert [case.name for case in cases.chosen("quick", ("nuts",))] == ["nuts-768x8"]


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_scikit_learn_and_ours_are_there_by_the_names_that_cases_use(case):
    for name in (case.ours, *case.peers, *(case.quick_peers or ()), *case.limits):
        if name.partition(".")[0] in ("ours", "scikit_learn", "limits", "importing"):
            assert find(name).label
