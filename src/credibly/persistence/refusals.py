"""What an encoder says of a value that it cannot write."""


class Unsavable(Exception):
    """The reason, to which `tree` adds where the value is; users see an InputError."""
