"""The page of `sweep serve`: progress and results of stores, in a browser on this machine.

`server` answers requests; `stores` opens stores, selects runs and keeps answers; `progress` counts
runs; `views` makes figures of results, whose JSON is in `figures`; `runs` describes a single run.
``page.js`` draws.
"""
