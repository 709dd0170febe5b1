"""`takt plan`: finds the cheapest way to do a task, using files only, and checks whether a saved plan still fits."""
