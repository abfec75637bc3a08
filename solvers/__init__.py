"""How to find good decisions: one family of solvers per folder, every solver returns an Outcome."""
