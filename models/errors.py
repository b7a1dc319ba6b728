"""Errors that a user can mend. The message is one sentence: what was found, where, and what to do."""


class PredilectError(Exception):
    """Base of every error shown to people without a traceback."""


class DataError(PredilectError):
    """The data breaks a rule; the message names the file, row or id and the rule."""


class ParameterError(PredilectError):
    """A parameter has an impossible value; the message names it, the value and the range."""


class ArtifactError(PredilectError):
    """A saved model cannot be read; the message names the folder and the reason."""


class NotConvergedError(PredilectError):
    """An iteration did not reach its tolerance; the message gives the certificate it stopped with."""


class ComputeError(PredilectError):
    """The workers that should do the work are not there or cannot do it; the message names them and what to do."""
