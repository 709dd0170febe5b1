"""`takt plan`: the cheapest way to do a task, from files alone, and whether a change still fits."""
