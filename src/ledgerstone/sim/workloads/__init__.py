"""What clients do on a simulated cluster, by profile."""
