"""The protocol edge: transports, content types, compression, statuses; not what a body means."""
