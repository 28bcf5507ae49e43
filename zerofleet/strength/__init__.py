"""Playing strength: matches, tournaments, ladders, ratings, accuracy and charts."""
