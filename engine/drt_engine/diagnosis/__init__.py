"""What a bug report needs: the machine, the packages, the library, and whether drt works here."""

from drt_engine.diagnosis.diagnose import diagnose

__all__ = ["diagnose"]
