"""What is different under AddressSanitizer, whose frames are larger."""

import os

SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
# The least stack, in bytes, that is promised to do.
SMALL_STACK = (1024 if SANITIZED else 256) * 1024
