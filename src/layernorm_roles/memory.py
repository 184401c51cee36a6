"""Tells errors that mean used-up memory from others, shortens errors to one line, and prints warnings."""

import logging
import sys

log = logging.getLogger("layernorm_roles")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error`, raised by Python, numpy, torch or a GPU's library, means that memory is used up."""
    words = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or any(word in str(error) for word in words)


def first_line(error: BaseException) -> str:
    """The first line of the error's message, or the name of the error's class if the message is empty."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def warn(line: str, error: BaseException | None = None) -> None:
    """Print the warning `line` on standard error, and log it, with the traceback of `error` if that is given."""
    log.warning(line, exc_info=error)
    print(f"warning: {line}", file=sys.stderr, flush=True)
