"""Spark over the broker: a source and a sink, and the lake that is made of its history."""
