"""Results in files of other programs."""

from integrators.lazy import lazy

# Imported when first used: a NetCDF file needs no Arrow, and a table no HDF5.
_HOMES = {
    "write_csv_or_parquet": "sweep.exports.tables",
    "write_netcdf": "sweep.exports.netcdf",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
