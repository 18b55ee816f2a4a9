"""Control of a running sandbox: requests to its socket, its status, and the process that it runs in."""
