"""The audit log: who changed what, and who was refused. See README.md of security."""
