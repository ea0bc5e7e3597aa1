"""Stores as a whole: verified, repaired, merged, and their arrays written anew."""

RUN, STUDY, COPY, REMOVE, NOTHING = "run", "study", "copy", "remove", "nothing"
"""How what was found is mended: the runs are computed again; it is written again from the study
or from the consolidated metadata; it is removed; not at all."""

GONE = "is gone; `sweep run` computes all its runs again"
"""The text of what is found of an experiment without a directory."""
