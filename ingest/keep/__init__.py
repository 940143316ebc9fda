"""Events in, durable rows out: one writer thread, one store, and the segments published from it."""
