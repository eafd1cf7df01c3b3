"""How to reach the agent."""
