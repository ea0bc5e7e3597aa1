"""Step sizes divide the sample interval, whether they are listed or generated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrators.errors import InputError
from sweep.study.time_axis import DIVIDES, LogarithmicTimeAxis, TimeAxis, spaced_values

durations = st.floats(1e-3, 1e6)
counts = st.integers(1, 10_000)
parts = st.floats(1e-6, 1.0)


@given(durations, counts, parts)
def test_a_snapped_step_divides_the_interval_and_stays(duration, samples, part):
    axis = TimeAxis(duration, samples)
    snapped = axis.snapped(part * axis.interval)
    ratio = axis.interval / snapped
    assert abs(ratio - round(ratio)) <= DIVIDES * ratio
    assert axis.steps(snapped) == round(ratio)
    assert axis.snapped(snapped) == snapped


@given(durations, counts, st.integers(1, 10**6))
def test_a_step_that_divides_keeps_its_exact_float(duration, samples, steps):
    axis = TimeAxis(duration, samples)
    for step_size in (axis.interval / steps, float(f"{axis.interval / steps:.12g}")):
        assert axis.steps(step_size) == steps
        assert axis.snapped(step_size) == step_size


@given(durations, counts, parts)
def test_the_nearest_steps_that_a_refusal_names_are_accepted(duration, samples, part):
    axis = TimeAxis(duration, samples)
    step_size = part * axis.interval
    try:
        axis.steps(step_size)
    except InputError as error:
        named = str(error).split("nearest that do are ")[1].split(" and ")
        larger, smaller = (float(words.split(" (")[0]) for words in named)
        assert smaller < step_size < larger
        assert axis.steps(smaller) == axis.steps(larger) + 1


@pytest.mark.parametrize(
    ("step_size", "words"),
    [
        (0.0, "positive"),
        (-0.1, "positive"),
        (float("nan"), "positive"),
        (0.11, "larger than the sample interval 0.1"),
        (1e-300, "more than 2"),
        (0.03, "nearest that do are 0.03333333333 (3 steps) and 0.025 (4 steps)"),
        (0.07, "nearest that do are 0.1 (1 step) and 0.05 (2 steps)"),
    ],
)
def test_steps_that_are_refused(step_size, words):
    with pytest.raises(InputError) as caught:
        TimeAxis(10.0, 100).steps(step_size)
    assert words in str(caught.value)


def test_a_step_as_large_as_the_interval_up_to_rounding():
    assert TimeAxis(np.nextafter(0.3, 0.0), 3).interval < 0.1
    assert TimeAxis(0.3, 3).steps(0.1) == 1


@pytest.mark.parametrize(
    ("duration", "samples"), [(0.0, 1), (-1.0, 1), (float("inf"), 1), (1.0, 0)]
)
def test_time_axes_that_are_refused(duration, samples):
    with pytest.raises(InputError):
        TimeAxis(duration, samples)


def test_times():
    np.testing.assert_array_equal(TimeAxis(1.0, 4).times, [0.0, 0.25, 0.5, 0.75, 1.0])


@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e6), st.integers(2, 50), st.booleans())
def test_a_range_keeps_its_ends_and_generates_six_digits(start, factor, count, log):
    values = spaced_values(start, start * factor, count, "log" if log else "linear")
    assert (values[0], values[-1], len(values)) == (start, start * factor, count)
    assert all(float(f"{value:.6g}") == value for value in values[1:-1])
    exact = (np.geomspace if log else np.linspace)(start, start * factor, count)
    np.testing.assert_allclose(values, exact, rtol=5.001e-6)


def test_a_range_of_integers_where_all_can_be():
    assert spaced_values(2, 8, 4, "linear") == (2, 4, 6, 8)
    assert [type(value) for value in spaced_values(2, 16, 4, "log")] == [int] * 4
    assert spaced_values(1, 2, 3, "linear") == (1.0, 1.5, 2.0)


@pytest.mark.parametrize("range_of", [(1, 2, 1, "linear"), (0, 1, 3, "log"), (1, -1, 3, "log")])
def test_ranges_that_are_refused(range_of):
    with pytest.raises(InputError):
        spaced_values(*range_of)


# --- samples that thin out with time ----------------------------------------------------------


@given(st.floats(1e-3, 1e3), st.integers(1, 10**7), st.integers(1, 200), st.floats(1.0, 1e4))
def test_logarithmic_samples_are_distinct_multiples_with_even_ratios(grid, steps, density, first):
    duration = steps * grid
    axis = LogarithmicTimeAxis(duration, density, min(first * grid, duration), grid)
    marks = axis.marks
    assert marks.dtype == np.int64 and marks[0] == 0 and axis.intervals == marks[-1] == steps
    assert np.all(np.diff(marks) > 0) and axis.samples == len(marks) - 1
    assert axis.times[0] == 0.0 and axis.times[-1] == pytest.approx(duration, rel=1e-15)
    assert abs(marks[1] - min(first, steps)) <= 0.5 + 1e-5 * first or marks[1] == steps
    ratio = 10 ** (1 / density)
    large = marks[marks > 50 / (ratio - 1)]
    inner = large[1:-1] / large[:-2]
    np.testing.assert_allclose(inner, ratio, rtol=0.02 * (ratio - 1) + 2e-5)
    if len(large) > 1:
        assert ratio**0.45 < large[-1] / large[-2] < ratio**1.55


def test_logarithmic_times():
    axis = LogarithmicTimeAxis(100.0, 2, 0.5, 0.5)
    np.testing.assert_array_equal(axis.marks, [0, 1, 3, 10, 32, 100, 200])
    np.testing.assert_array_equal(axis.times, [0.0, 0.5, 1.5, 5.0, 16.0, 50.0, 100.0])
    assert (axis.steps(0.5), axis.steps(0.125), axis.snapped(0.26)) == (1, 4, 0.25)
    assert axis.interval == axis.snapped(0.6) == 0.5
    np.testing.assert_array_equal(LogarithmicTimeAxis(2.0, 3, 2.0, 0.5).times, [0.0, 2.0])


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ((-1.0, 10, 0.1, 0.1), "duration", "positive number, got -1.0"),
        ((10.0, 0, 0.1, 0.1), "per_decade", "1 to 10,000 samples a decade, got 0"),
        ((10.0, 10, 0.05, 0.1), "first", "from the largest step size 0.1 to the duration 10.0"),
        ((10.0, 10, 10.1, 0.1), "first", "got 10.1"),
        ((10.0, 10, 0.1, -0.1), "step_size", "positive step size"),
        ((10.0, 10, 0.1, 1e-300), None, "more than 2**53 steps"),
        (
            (1.0, 10, 0.4, 0.4),
            "step_size",
            "does not divide the duration 1.0; the nearest that do are 0.5 (2 steps) and "
            "0.3333333333 (3 steps)",
        ),
        ((1.0, 10, 1.5, 1.5), "step_size", "the nearest that do are 1 (1 step)"),
    ],
)
def test_logarithmic_axes_that_are_refused(settings, key, words):
    with pytest.raises(InputError) as caught:
        LogarithmicTimeAxis(*settings)
    assert words in str(caught.value) and caught.value.key == key


def test_steps_off_the_grid_are_refused():
    axis = LogarithmicTimeAxis(10.0, 10, 0.1, 0.1)
    with pytest.raises(
        InputError, match=r"does not divide 0\.1, the largest .* 0\.03333333333 \(3 "
    ):
        axis.steps(0.03)
    with pytest.raises(InputError, match="larger than 0.1, the largest step size"):
        axis.steps(0.2)
