"""McLachlan, Modin and Verdier, *A minimal-variable symplectic integrator on spheres*."""
