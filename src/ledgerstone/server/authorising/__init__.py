"""What a request's principal may do, API by API: the `authorised` stage. See server/README.md."""
