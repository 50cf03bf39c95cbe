"""The one client for command line, Spark and followers: a pure session, and shells around it."""
