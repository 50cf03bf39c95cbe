"""What clients did and saw, and a checker that looks for anomalies in it."""
