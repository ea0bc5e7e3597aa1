"""Quadrotors that carry their load by vertical forces, and damp its motion and their own turns."""

from dataclasses import dataclass

from integrators.plugin import axpy, get, kernel, put, scale
from systems.plugin import CONTROL_VALUES, QuadrotorPayload

V, OMEGA_1, OMEGA_2 = 1, 5, 9  # rows of a state, as sweep show system quadrotor_payload has them


@kernel()
def damping(t, y, p, out, work):  # rows of out: u_1 in space, N, M_1 in the body, N m, u_2, M_2
    lift, damping, brake = p[CONTROL_VALUES], p[CONTROL_VALUES + 1], p[CONTROL_VALUES + 2]
    force = axpy(-damping, get(y, V), (0.0, 0.0, -lift))  # e3 points down
    put(out, 0, force)
    put(out, 1, scale(-brake, get(y, OMEGA_1)))
    put(out, 2, force)
    put(out, 3, scale(-brake, get(y, OMEGA_2)))


@dataclass(frozen=True)
class DampedPayload(QuadrotorPayload):
    name = "damped_payload"
    description = "two quadrotors that damp the motion of their load"
    controls = {**QuadrotorPayload.controls, "damping": damping}


SYSTEMS = (DampedPayload,)
