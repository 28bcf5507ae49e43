"""What holds for all tests."""

from hypothesis import settings

# The first example may wait for the compiler, and time says little on a shared machine.
settings.register_profile("zerofleet", deadline=None)
settings.load_profile("zerofleet")
