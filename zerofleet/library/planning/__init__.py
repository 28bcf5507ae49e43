"""Planning: what a fleet of a size would do, from costs that were measured, and a simulation that checks the arithmetic."""
