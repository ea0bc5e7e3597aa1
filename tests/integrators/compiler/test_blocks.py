"""Blocks of eight within one trajectory, in kernels of both kinds and in plain Python."""

import numpy as np
import pytest
from array_kernels import on_arrays

from integrators.compiler import blocks, lanes, views
from integrators.compiler.blocks import cache_lines, eights, gathered, scatter
from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import WIDTH, eight, hsum, lane_of, ramp, select, with_lane
from integrators.compiler.views import as_lanes, flattened, members, rows_of


def copied(source, step, target, member):
    """Gather every `step`-th number of a member into blocks and scatter them again."""
    numbers, out = members(source), members(target)
    for start in range(step):
        for first in range(start, numbers.shape[0], WIDTH * step):
            scatter(gathered(numbers, first, step, member, -1.0), out, first, step, member)


_copied = inlined(copied)


@on_arrays(1, 0, 1)
def copied_scalar(source, step, target):
    _copied(source, int(step), target, 0)


@on_arrays(2, 0, 2)
def copied_lanes(source, step, target):
    for member in range(WIDTH):
        _copied(as_lanes(source), int(step), as_lanes(target), member)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 23, 24, 48])
@pytest.mark.parametrize("step", [1, 3])
def test_what_is_gathered_is_scattered_back(size, step):
    numbers = np.random.default_rng(size).standard_normal((size, WIDTH))
    alone, plain, together = np.zeros(size), np.zeros(size), np.zeros((size, WIDTH))
    copied_scalar(np.ascontiguousarray(numbers[:, 0]), step, alone)
    copied(numbers[:, 0], step, plain, 0)
    copied_lanes(numbers, step, together)
    np.testing.assert_array_equal(alone, numbers[:, 0])
    np.testing.assert_array_equal(plain, numbers[:, 0])
    np.testing.assert_array_equal(together, numbers)


def beyond(source, sums):
    """Sums of blocks that are filled up."""
    numbers = members(source)
    for b in range(sums.shape[0]):
        sums[b] = hsum(gathered(numbers, WIDTH * b, 1, 0, 100.0))


@pytest.mark.parametrize("function", [beyond, on_arrays(1, 1)(beyond)], ids=["plain", "compiled"])
def test_blocks_are_filled_up(function):
    sums = np.zeros(3)
    function(np.ones(11), sums)
    np.testing.assert_array_equal(sums, [8.0, 503.0, 800.0])


def vocabulary(out):
    """Lanes in a kernel that knows scalars only."""
    lines = as_lanes(out)
    lines[0] = eight(2.5)
    lines[1] = ramp(lines[0])
    lines[2] = with_lane(lines[1], 6, -1.0)
    lines[3] = select(lines[1] > 3.0, lines[0], lines[1])
    lines[4] = eight(lane_of(lines[1], 5))
    lines[5] = eight(hsum(lines[1] * lines[1]))


@pytest.mark.parametrize(
    "function", [vocabulary, on_arrays(2)(vocabulary)], ids=["plain", "compiled"]
)
def test_vocabulary_works_within_a_trajectory(function):
    out = np.zeros((6, WIDTH))
    function(out)
    expected = [
        [2.5] * 8, range(8), [0, 1, 2, 3, 4, 5, -1, 7], [0, 1, 2, 3, 2.5, 2.5, 2.5, 2.5],
        [5.0] * 8, [140.0] * 8,
    ]  # fmt: skip
    np.testing.assert_array_equal(out, np.array([list(row) for row in expected], dtype=float))


def test_sums_are_the_same_tree_in_plain_python():
    x = np.random.default_rng(0).standard_normal((50, WIDTH)) * 10.0 ** np.arange(WIDTH)

    @on_arrays(2, 1)
    def compiled(x, out):
        for i in range(x.shape[0]):
            out[i] = hsum(as_lanes(x)[i])

    out = np.zeros(50)
    compiled(x, out)
    np.testing.assert_array_equal(out, [hsum(row) for row in x])


@pytest.mark.parametrize("offset", range(8))
def test_cache_lines_start_at_a_boundary_and_stay_inside(offset):
    @on_arrays(1, 1)
    def fill(work, address):
        lines = cache_lines(work, 3)
        for i in range(3):
            for k in range(WIDTH):
                lines[i, k] = 1.0
        address[0] = lines.ctypes.data % lanes.ALIGNMENT

    raw = np.zeros(8 * 4 + 16)
    work = raw[offset : offset + 8 * 4]  # three rows and a line to spare
    address = np.ones(1)
    fill(work, address)
    assert address[0] == 0.0
    assert work.sum() == raw.sum() == 24.0


def test_views_of_either_element_type():
    flat = np.arange(48.0)

    @on_arrays(1, 3, 1)
    def through(flat, out, shape):
        stack = rows_of(as_lanes(eights(flat, 0, 6)), 0, 2)
        floats = members(stack)
        for i in range(2):
            for c in range(3):
                for k in range(WIDTH):
                    out[i, c, k] = floats[i, c, k]
        shape[0], shape[1] = flattened(floats).shape

    out, shape = np.zeros((2, 3, WIDTH)), np.zeros(2)
    through(flat, out, shape)
    assert shape.tolist() == [6, WIDTH]
    np.testing.assert_array_equal(out.ravel(), flat)
    assert views.flattened(out).shape == (6, WIDTH)
    assert blocks.eights(flat, 8, 2).tolist() == flat[8:24].reshape(2, 8).tolist()
