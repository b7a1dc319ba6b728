"""Data contracts: Arrow schemas, id-free expectations, and what runs them. Does not know `models`."""
