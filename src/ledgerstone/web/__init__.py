"""The pages for people, on the broker's second port. Rules and map: README.md."""
