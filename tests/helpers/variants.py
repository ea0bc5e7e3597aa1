"""Parameters of systems for the inherited tests, where their defaults do not do."""

TILTED = ((2.0, 0.3, -0.2), (0.3, 1.0, 0.4), (-0.2, 0.4, 1.5))  # positive definite
ALGEBRAS = ("A3,1", "A3,4", "A3,6", "A3,8", "A3,9")

# Those that reach other code than the defaults do.
VARIANTS = {
    "spherical_pendulum_chain": (
        {"count": 1, "length": 0.7},  # one body: a diagonal inertia, so explicit methods
        {  # as many links as steps of O(n) are for
            "count": 6,
            "mass": (1.0, 0.5, 2.0, 1.5, 0.7, 1.2),
            "length": (0.6, 1.0, 0.8, 1.2, 0.9, 0.7),
            "gravity": -9.81,
        },
    ),
    "nbody_sphere": (
        {"count": 2, "mass": (1.0, 2.5), "coupling": 0.7},
        {"count": 2, "damping": (0.3, 0.1)},
    ),
    "spring_pendula": (
        {
            "count": 2,
            "length": (0.1, 0.2),
            "edges": ((1, 0), (0, 1)),
            "stiffness": (5.0, 2.0),
            "pivots": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.3)),  # on the vertical: a momentum map
        },
    ),
    "elastic_rod": (
        {  # as many elements as steps of O(n) are for
            "count": 6,
            "mass": (0.3, 0.2, 0.1, 0.2, 0.1, 0.1),
            "stiffness": (0.3, 0.2, 0.1, 0.1, 0.2, 0.1),
            "gravity": 0.0,
        },
        {"count": 2, "mass": 0.5, "stiffness": 1.0, "inertia": "printed"},
    ),
    "magnetic_dipoles": (
        {
            "moment": (0.1, 0.2, 0.3),
            "mass": (0.05, 0.04, 0.03),
            "positions": ((0.0, 0.0, 0.0), (0.03, 0.0, 0.0), (0.1, 0.0, 0.0)),  # in a row
        },
    ),
    "forced_pendulum_chain": (
        {"count": 1, "length": 0.7, "damping": 0.3, "amplitude": 0.5},
        {  # as many links as steps of O(n) are for
            "count": 6,
            "damping": (0.2, 0.0, 0.1, 0.3, 0.0, 0.2),
            "length": (0.6, 1.0, 0.8, 1.2, 0.9, 0.7),
            "frequency": 3.0,
        },
        {"damping": 0.0, "amplitude": 0.0},  # a force that is none: a momentum map
    ),
    "free_rigid_body": (
        {"inertia": (1.0, 4 / 3, 2.0)},
        {"inertia": (2.0, 1.0, 1.0), "lengths": "any"},  # symmetric: a momentum map
    ),
    "irreversible_rigid_body": ({"inertia": (1.0, 1.5, 0.8), "sigma": -0.5, "lengths": "any"},),
    "forced_rigid_body": (
        {"inertia": (1.5, 1.5, 1.0), "epsilon": 0.5},  # symmetric: a momentum map
        {"inertia": (1.0, 2.0, 4.0), "epsilon": -0.4, "lengths": "any"},
    ),
    "precession": ({"axis": (0.3, -0.5, 0.7)}, {"axis": (0.0, -2.0, 0.0), "lengths": "any"}),
    "point_vortices": (
        {"strengths": (1.0, -0.7, 1.3)},
        {"strengths": (1.0, 0.5, -1.5, 0.8, -0.4)},
        {"strengths": (1.0, -0.7), "tracers": 2},
    ),
    "heisenberg_chain": (
        {"count": 2, "boundary": "open"},
        {"count": 5},  # bonds of three colours
        {"count": 4, "boundary": "open", "lengths": "any"},
    ),
    "nambu_quadratic": (
        *({"algebra": name, "quadratic": TILTED, "linear": (1.0, -0.3, 0.5)} for name in ALGEBRAS),
        {
            "algebra": ((0.5, 0.4, -0.3), (0.4, 1.0, 0.2), (-0.3, 0.2, -1.5)),
            "quadratic": TILTED,
        },
    ),
    "heavy_top": (
        {"formulation": "lie_poisson", "inertia": (1.0, 2.0, 1.0), "mass": 1.5, "length": 0.4},
        {"formulation": "quadratic", "inertia": "fixed_point"},  # symmetric: a momentum map
        {"inertia": (1.0, 1.6, 2.2), "gravity": -3.0, "mass": 0.8, "length": 1.0},
        {"formulation": "lie_poisson", "inertia": (2.2, 1.6, 1.0), "mass": 1.5, "length": 0.4},
    ),
    "quadrotor_payload": (
        {"mass": (0.6, 1.1), "length": (0.8, 1.3), "path_quadratic": (0.1, -0.2, 0.1)},
        {"control": "none", "mass": (0.6, 1.1), "gravity": 0.0},
        {"control": "attitude", "attitude_gain": 10.0, "spin_gain": 1.5},
        {"control": "constant", "moment": ((0.1, 0.0, -0.2), (0.0, 0.3, 0.0))},
    ),
    # A system of the tests: explicit time, a force, scratch in both functions.
    "driven_chain": ({"count": 1}, {"count": 2, "damping": 0.3}),
}


# Instead of a system's defaults, where those take long or are too stiff for these tests.
MILD = {
    "elastic_rod": {"count": 4, "stiffness": 0.02},
    "lennard_jones_sphere": {"level": 0, "epsilon": 0.1},
    "heisenberg_chain": {"count": 6},
}
# Random states of which collide, or have two so close that steps are too long for them: members
# keep near the case's state.
CROWDED = {"lennard_jones_sphere", "point_vortices"}
