"""What people look at. It knows the published events and the results, and nothing of how they came about."""
