"""What no mapping of a layer on an architecture can cost less than, without a search.

``bounds.py`` bounds energy and cycles from the words that have to move; it takes from ``sharing.py`` how many
MACs can run at once and how often a word can be multicast. ``refills.py`` adds how often a small level has to
be refilled. ``rounding.py`` has the margin that keeps all of them safe from floating-point rounding.
"""
