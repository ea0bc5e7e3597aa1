"""Upkeep of stores: verify them, repair them, and mark runs as not computed."""

RUN, STUDY, COPY, REMOVE, FOREIGN = "run", "study", "copy", "remove", "foreign"
"""Remedies of a finding, in this order: compute the runs again; rewrite the file from the study;
rewrite it from the root's copy of the metadata; remove it; leave it, since it is foreign."""

GONE = "is gone; `sweep run` computes all its runs again"
"""What a finding says of an experiment whose directory is missing."""
