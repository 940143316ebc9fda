"""Read-only SQL over the published events and the results: whose SQL it is, nobody needs to trust."""
