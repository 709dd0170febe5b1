"""Independent checks of the machine: written from the processor's description, slow, and sharing no code with it."""
