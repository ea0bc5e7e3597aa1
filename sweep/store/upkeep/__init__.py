"""Stores as a whole: verified, repaired, merged, and their arrays written anew."""

RUN, STUDY, COPY, REMOVE, NOTHING = "run", "study", "copy", "remove", "nothing"
"""How what was found is mended: the runs are computed again; it is written again from the study
or from the consolidated metadata; it is removed; not at all."""
