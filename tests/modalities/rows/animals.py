"""A table of animals: what its columns may hold, and which animals it has."""

SCHEMA = """
[age]
least = 0
most = 100

[kind]
choices = ["cat", "dog", "owl"]

[sound]
choices = ["meow", "woof", "hoot"]

[weight]
least = 0.0
most = 50.0
decimals = 1
missing = true
"""
ANIMALS = (("cat", "meow", 4.0), ("dog", "woof", 20.0))  # no owl, and a sound goes with its animal
