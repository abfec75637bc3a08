"""How designs are proposed: all of a grid, at random, or by Optuna's samplers."""
