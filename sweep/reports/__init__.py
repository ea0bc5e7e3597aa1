"""A store as one HTML file that opens offline: its study, answers, pictures, failures, provenance.

`sweep.report` writes it. What it says of an experiment stands in `sections`: a line for each
analysis.
"""
