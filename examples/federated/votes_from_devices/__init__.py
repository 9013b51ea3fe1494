"""Eight devices, each with a few points in the plane, vote for synthetic points: an example on Flower."""
