"""Stores as a whole: verified, repaired, merged, and their arrays written anew."""

RUN, STUDY, COPY, REMOVE, NOTHING = "run", "study", "copy", "remove", "nothing"
"""Remedies of a finding: compute the runs again; write it again from the study, or from the
consolidated metadata; remove it; none."""

GONE = "is gone; `sweep run` computes all its runs again"
"""The text of what is found of an experiment without a directory."""
