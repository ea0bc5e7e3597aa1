"""A line that says what goes on: anew on a terminal, and now and then elsewhere."""

import io

from sweep.cli.progress_line import ProgressLine


class Stream(io.StringIO):
    encoding, terminal = "utf-8", False

    def isatty(self):
        return self.terminal


def lines(monkeypatch, calls, terminal=False):
    """What is written for calls ``(seconds, text, share)``."""
    stream, now = Stream(), [0.0]
    stream.terminal = terminal
    monkeypatch.setattr("sys.stderr", stream)
    with ProgressLine(clock=lambda: now[0]) as line:
        for seconds, text, share in calls:
            now[0] = seconds
            line.show(text, share)
    return stream.getvalue()


def test_without_a_terminal_there_is_a_line_every_ten_seconds(monkeypatch):
    calls = [(k, f"{k} s", 0.001 * k) for k in range(35)]
    assert lines(monkeypatch, calls) == "  1% 10 s\n  2% 20 s\n  3% 30 s\n"


def test_and_at_every_twentieth_part_if_these_do_not_follow_each_other_fast(monkeypatch):
    slow = [(2.5 * k, "runs", 0.06 * k) for k in range(1, 4)]
    assert lines(monkeypatch, slow) == "  6% runs\n 12% runs\n 18% runs\n"
    fast = [(0.1 * k, "runs", 0.06 * k) for k in range(1, 15)]
    assert lines(monkeypatch, fast) == ""


def test_a_terminal_that_cannot_draw_anew_is_written_to_as_a_file(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    calls = [(10.0 * k, f"{k} of 3", 0.1) for k in range(1, 3)]
    assert lines(monkeypatch, calls, terminal=True) == " 10% 1 of 3\n 10% 2 of 3\n"


def test_a_terminal_shows_one_line_which_goes_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    shown = lines(monkeypatch, [(1, "own \x1b[31m [b]", 0.5)], terminal=True)
    before, own, after = shown.partition("own \\x1b[31m [b]")
    assert own and "50%" in before and after.endswith("\x1b[2K")
