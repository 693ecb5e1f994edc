"""What is made of the broker's history: functions from DataFrames to DataFrames, and nothing else."""
