"""The bell: messages to the people of an organisation about work that has ended."""
