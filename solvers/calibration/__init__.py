"""Fitting the constants of a machine's timing to measured cycles."""
