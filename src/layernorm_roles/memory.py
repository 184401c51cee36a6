"""Tells errors that mean used-up memory from others, shortens errors to one line, and prints warnings."""

import logging
import sys

log = logging.getLogger("layernorm_roles")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, numpy, torch or a GPU's library raised this error because memory is used up."""
    words = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or any(word in str(error) for word in words)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its class if it has none."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def warn(line: str, error: BaseException | None = None) -> None:
    """Print a warning on standard error and log it; with `error`, the log also has that exception's traceback."""
    log.warning(line, exc_info=error)
    print(f"warning: {line}", file=sys.stderr, flush=True)
