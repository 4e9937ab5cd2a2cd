"""Nothing here is a test; ``make mutation`` runs it, with tools that the tests do not need."""

collect_ignore_glob = ["*"]
