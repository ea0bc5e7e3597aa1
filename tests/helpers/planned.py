"""Tasks that do nothing, for what hands tasks out."""

import types


def planned_task(cost=1.0, runs=1):
    """As much of a `sweep.campaign.planning.PlannedTask` as is needed to submit it."""
    return types.SimpleNamespace(
        cost=cost, seconds_to_stop=1.0, runs=runs, build=lambda: types.SimpleNamespace(cost=cost)
    )
