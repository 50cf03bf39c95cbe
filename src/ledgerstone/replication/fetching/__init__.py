"""The follower's side of Fetch: what to ask a leader, and what to do with its answers. Pure."""
