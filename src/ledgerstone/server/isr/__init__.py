"""Changes of in-sync replicas, proposed to the controller. See README.md."""
