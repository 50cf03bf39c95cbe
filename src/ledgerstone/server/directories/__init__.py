"""Log directories of a broker: opened at start, taken offline, told to the controller."""
