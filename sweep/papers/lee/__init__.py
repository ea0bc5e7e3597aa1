"""Lee, Leok and McClamroch, *Lagrangian mechanics and variational integrators on two-spheres*."""
