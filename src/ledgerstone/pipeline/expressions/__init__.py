"""Filters and computed columns: a small SQL, checked with the definition, evaluated on Arrow."""
