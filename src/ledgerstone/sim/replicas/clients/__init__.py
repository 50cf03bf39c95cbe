"""Clients of a cluster: they find leaders and coordinators, and write down what they did."""
