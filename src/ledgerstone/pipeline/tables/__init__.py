"""Tables that follow a topic: one module per target, all with the same contract (`target`)."""
