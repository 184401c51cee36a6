"""Every Python process in whose path this lies notes in the file $NETWORK_LOG what it wants from the network."""

import os
import sys
from pathlib import Path


def watch(event, args):
    to_a_host = event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple)
    if to_a_host or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        with Path(os.environ["NETWORK_LOG"]).open("a") as file:
            print(sys.argv, event, args, file=file)


sys.addaudithook(watch)
