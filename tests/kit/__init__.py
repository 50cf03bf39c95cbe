"""What several test packages build with: batches and logs in one line each."""
