"""`takt plan`: finds the cheapest way to do a task, or checks whether a saved plan still fits. It needs only files."""
