"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# How fast examples are made and run says more about what else the machine does than about the code.
settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")
