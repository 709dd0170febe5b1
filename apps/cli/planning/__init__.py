"""`takt plan`: finds the cheapest way to do a task, or checks a saved plan, from files alone."""
