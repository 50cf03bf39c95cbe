"""`ledgerstone demo`: a real change history through the log, a table and an erasure, checked."""
