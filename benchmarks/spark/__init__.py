"""Spark beside PostgreSQL's own COPY, and beside the engine it reads from and writes to."""
