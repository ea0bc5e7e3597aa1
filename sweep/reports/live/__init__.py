"""The live page of `sweep serve`: progress and results of stores, in a browser on this machine.

`server` answers requests; `stores` opens stores, selects runs and caches figures; `progress` counts
runs; `views` makes figures from results, which `figures` defines and encodes as JSON; `runs`
describes a single run. ``page.js`` draws.
"""
