"""Behaviours of the broker, each written once and run on every surface that has it."""
