"""`zerofleet bench learn`: learning by processor time, judged and compared over seeds."""
