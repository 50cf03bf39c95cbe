"""Worker processes of a broker: what they say, how they live, and how they end."""
