"""The errors of this package, as a tree.

GapeError
├── InputError        (also a ValueError) an argument, a file or an array that cannot be used
├── PrivacyError      the request would break the guarantee, or could not be shown to keep it
│   └── BudgetError   the requested releases cost more than the budget of the dataset allows
├── RunError          a run folder that is missing, foreign, damaged or in use
├── ServiceError      a service that cannot be reached, refuses, or gives no usable answers
├── DeviceError       a GPU with too little free memory
└── SpendingError     the next request could exceed the cap on tokens or on money

A message names the value, the rule and the remedy in one sentence. It never contains private content.
"""


class GapeError(Exception):
    """Base class of all errors that this package raises on purpose."""


class InputError(GapeError, ValueError):
    """An argument, a file or an array that cannot be used."""


class PrivacyError(GapeError):
    """The request would break the guarantee, or could not be shown to keep it."""


class BudgetError(PrivacyError):
    """The requested releases cost more than the budget of the private dataset allows."""


class RunError(GapeError):
    """A run folder that is missing, foreign, damaged or in use."""


class ServiceError(GapeError):
    """A service that cannot be reached, refuses, or gives no usable answers."""


class DeviceError(GapeError):
    """A GPU with too little free memory."""


class SpendingError(GapeError):
    """The next request could exceed the cap on tokens or on money."""


def in_one_line(error: BaseException) -> str:
    """Return the message of another library's error on one line, cut because it may quote a file, or its type."""
    return " ".join(str(error).split())[:200] or type(error).__name__
