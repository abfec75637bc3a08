"""Thistle: a geometric program for every class of loop orders (Vaidya et al., CGO 2022), made whole again."""
