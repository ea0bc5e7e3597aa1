"""Which integrator keeps an error below a bound at the least cost: searched for, and verified."""
