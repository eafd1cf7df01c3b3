"""Many callers: the Locust user, and how results travel from workers to the master."""
