"""The protocol edge: transports, content types, compression, statuses. What a body means is not known here."""
