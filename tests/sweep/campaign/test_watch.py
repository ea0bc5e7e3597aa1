"""What a run tells whoever watches it, and that receipts of all its tasks come."""

from study_text import one_experiment

from sweep.campaign.watch import Progress, Watcher
from sweep.cli.terminal import Terminal
from sweep.store import progress as stored


class Log(Watcher):
    """Keeps what is called."""

    def __init__(self):
        self.calls, self.shares = [], []

    def compared(self, entries):
        self.calls.append("compared")

    def planned(self, plans, tasks, workers):
        self.calls.append("planned")
        assert tasks >= 1 and workers == 2

    def progressed(self, text, share):
        self.calls.append("measured" if text.startswith("Preparing") else "computed")
        self.shares.append(share)
        self.text = text

    def ended(self, text, share):
        self.calls.append("ended")
        self.last = text, share


def test_a_run_tells_how_far_it_is(run_text, tmp_path):
    log = Log()
    assert run_text(one_experiment(initial_condition='"lee"'), tmp_path / "a.zarr", watcher=log)
    assert list(dict.fromkeys(log.calls)) == [
        "compared", "measured", "planned", "computed", "ended",
    ]  # fmt: skip
    assert all(0 <= share <= 1 for share in log.shares) and log.shares[-1] == 1
    runs = log.last[0].split(" of ")[0]
    assert f" {runs}/{runs} runs, " in log.text and "running only: " in log.text
    assert log.last[0].startswith(f"{runs} of {runs} runs in ") and log.last[1] == 1
    again = Log()
    run_text(one_experiment(initial_condition='"lee"'), tmp_path / "a.zarr", watcher=again)
    assert again.calls == ["compared"]


def test_a_run_that_resumes_tells_what_is_in_checkpoints(capsys):
    Terminal("test").resumed([stored.Progress("only", 3, 1, 0, 0.5, 0, 0, 1.0)])
    printed = capsys.readouterr().out
    assert printed.startswith("only: 25.0% of what is not done is in checkpoints, and counted here")


def test_no_time_left_is_told_before_a_rate_is_measured():
    progress = Progress(2)
    progress.planned, progress.expected, progress.running = True, 2e3, [Task()]
    assert " left" not in str(progress)
    progress.note_receipt(Task(), Receipt())
    assert str(progress).endswith(" left")


class Task:
    cost, experiment = 1e3, "only"


class Receipt:
    runs, whole, seconds = 1, True, 1e3
