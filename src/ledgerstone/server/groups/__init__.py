"""The group coordinators of this broker."""
