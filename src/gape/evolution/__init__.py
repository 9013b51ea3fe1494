"""Private Evolution: the plan, the main loop, the last pass, and the planners of the theorems."""
