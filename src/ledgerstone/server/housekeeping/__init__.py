"""What the clock asks for: flushes, retention, files to unlink, the disk's state."""
