"""Open verdicts of a store, the runs that would decide them, and the campaign that adds those."""
