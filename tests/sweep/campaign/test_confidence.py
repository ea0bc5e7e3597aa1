"""What the errors of some initial conditions say of others."""

import numpy as np
import pytest

from sweep.campaign.recommend.confidence import (
    CONFIDENCE,
    confidence_of_attempt,
    rare_error,
    share_that_keeps,
)


def test_where_all_keep_a_bound_the_share_is_the_root():
    assert share_that_keeps(20, 20, 0.95) == pytest.approx(0.05 ** (1 / 20), rel=1e-12)
    assert share_that_keeps(0, 20, 0.95) == 0.0


@pytest.mark.parametrize(("share", "count"), [(0.9, 40), (0.99, 40), (0.6, 12)])
def test_the_share_is_too_large_as_seldom_as_it_says(share, count):
    kept = np.random.default_rng(1).binomial(count, share, size=4000)
    wrong = np.mean([share_that_keeps(int(own), count, 0.95) > share for own in kept])
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)


def test_the_attempts_spend_what_may_be_wrong_only_once():
    wrong = [1.0 - confidence_of_attempt(attempt) for attempt in range(1, 60)]
    assert sum(wrong) == pytest.approx(1.0 - CONFIDENCE)


@pytest.mark.parametrize("tail", [0.1, 0.3, 1.0])
def test_new_sets_of_twenty_keep_what_is_rare_in_nineteen_of_twenty(tail):
    """Of lognormal errors; and it is no more than what the tail makes of it, on average."""
    rng = np.random.default_rng(2)
    found = [rare_error(np.exp(tail * rng.standard_normal(40))) for _ in range(2000)]
    new = np.exp(tail * rng.standard_normal((2000, 20))).max(axis=1)
    assert np.mean(new <= found) >= 0.95
    assert np.median(found) < np.exp(5.0 * tail)


@pytest.mark.parametrize("errors", [[3.0], [1.0, 2.0, 3.0], [0.0] * 9 + [3.0]])
def test_few_errors_have_no_tail(errors):
    assert rare_error(errors) == 3.0


def test_a_run_that_failed_exceeds_all():
    assert rare_error([*np.linspace(1, 2, 30), np.inf]) == np.inf
