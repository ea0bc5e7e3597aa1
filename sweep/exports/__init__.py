"""Results as files for other programs."""

from integrators.lazy import lazy

# Imported when first used: a NetCDF file does not need Arrow, nor a table HDF5.
_HOMES = {
    "write_csv_or_parquet": "sweep.exports.csv_parquet",
    "write_netcdf": "sweep.exports.netcdf",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
