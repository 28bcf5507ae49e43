"""What passes between services: names, encodings, manifests and their checks, promotions, records, messages."""
