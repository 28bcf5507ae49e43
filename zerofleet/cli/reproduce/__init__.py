"""`zerofleet reproduce`: experiments of theses, their verdicts and the report."""
