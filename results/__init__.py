"""What came back: schema, Parquet store, Pareto front, report."""
