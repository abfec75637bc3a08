"""Words of a command line, checked before anything is computed: names, paths and lengths that a user wrote.

Each module is one kind of argument that several commands take.
"""
