"""Report of a run as one HTML file."""
