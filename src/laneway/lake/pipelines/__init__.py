"""Transformations of the broker's history: pure functions from DataFrames to DataFrames."""
