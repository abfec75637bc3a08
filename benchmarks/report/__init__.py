"""How BENCHMARKS.md is made: which benchmarks run, what is shown of their records, and in which words."""
