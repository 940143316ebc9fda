"""Request bodies in, columns of records out; nothing is interpreted here."""
