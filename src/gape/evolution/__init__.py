"""Private Evolution itself: its plan, its loop, its last pass, and what the theorems say of it."""
