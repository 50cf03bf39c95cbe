"""Values that a database cannot hold. Pure."""

import pyarrow as pa
import pyarrow.compute as pc


def holding_zero_character(cells: pa.ChunkedArray) -> tuple[str, pa.Array]:
    """PostgreSQL's text holds every character but one: the reason, and where it is."""
    return "holds U+0000, which PostgreSQL refuses", pc.match_substring(cells, "\0")


def named(name: str, said: str, is_unfit: pa.Array) -> dict[int, str]:
    """The rows that are unfit, with the reason."""
    rows = pc.indices_nonzero(pc.fill_null(is_unfit, False)).to_pylist()
    return dict.fromkeys(rows, f"column {name} {said}")
