"""From prior and likelihood to posterior."""
