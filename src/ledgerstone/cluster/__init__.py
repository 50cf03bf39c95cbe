"""A cluster of processes on one machine, and changes to any cluster. Rules and map: README.md."""
