-- Tokens of people, version 7: of each a hash of its secret, and whose it is.
CREATE TABLE pass (
  id     TEXT PRIMARY KEY,
  record BLOB NOT NULL
) STRICT;
