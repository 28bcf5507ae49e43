"""Measurements that are not shipped: ablations, theory tables and simulations behind the documentation."""
