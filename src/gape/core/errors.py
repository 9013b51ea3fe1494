"""What can go wrong, as a tree.

GapeError
├── InputError        (also a ValueError) an argument, a file or an array that cannot be used
├── PrivacyError      what was asked would break, or could not be shown to keep, the guarantee
│   └── BudgetError   the releases asked for cost more than the budget of the dataset allows
├── RunError          a run folder that is missing, foreign, damaged or in use
├── ServiceError      a service that cannot be reached, refuses, or gives no usable answers
├── DeviceError       a GPU with too little free memory
└── SpendingError     the next request could cost more than the cap on tokens or on money leaves

A message names the value, the rule and the remedy in one sentence, and never any private content.
"""


class GapeError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(GapeError, ValueError):
    """An argument, a file or an array that cannot be used."""


class PrivacyError(GapeError):
    """What was asked would break the guarantee, or could not be shown to keep it."""


class BudgetError(PrivacyError):
    """The releases asked for cost more than the budget of the private dataset allows."""


class RunError(GapeError):
    """A run folder that is missing, foreign, damaged or in use."""


class ServiceError(GapeError):
    """A service that cannot be reached, refuses, or gives no usable answers."""


class DeviceError(GapeError):
    """A GPU with too little free memory."""


class SpendingError(GapeError):
    """The next request could cost more than the cap on tokens or on money leaves."""


def in_one_line(error: BaseException) -> str:
    """What an error of another library says, shortly and on one line, for it may quote a file; or else its type."""
    return " ".join(str(error).split())[:200] or type(error).__name__
