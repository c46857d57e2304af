"""Arrow and Parquet, the columns of traces. Most runs write none, so an extra brings them."""

from __future__ import annotations

from streamproof.errors import UsageError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:
    raise UsageError(
        f"Traces need pyarrow ({error}): `pip install 'streamproof[traces]'` brings it."
    ) from error

__all__ = ["pa", "pc", "pq"]
