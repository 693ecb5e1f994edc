"""The gateway: it accepts requests at once, and calls the targets that they are for later."""
