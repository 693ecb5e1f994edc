"""Read and write messages with Spark, and keep their history as a lake of Parquet files."""
