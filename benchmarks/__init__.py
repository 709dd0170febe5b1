"""Every figure that the README states, one command each."""
