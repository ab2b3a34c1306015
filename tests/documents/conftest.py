"""Property tests run without a deadline: the machine may be busy."""

from hypothesis import settings

settings.register_profile("interlock", deadline=None)
settings.load_profile("interlock")
