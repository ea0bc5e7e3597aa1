"""Stores as a whole: verified, repaired, merged, and their arrays written anew."""

RUN, STUDY, COPY, REMOVE, FOREIGN, NOTHING = "run", "study", "copy", "remove", "foreign", "nothing"
"""Remedies of a finding: compute the runs again; write it again from the study, or from the
consolidated metadata; remove it; leave it, since it is none of the store's; none."""

GONE = "is gone; `sweep run` computes all its runs again"
"""The text of what is found of an experiment without a directory."""
