-- Schema version 7: tokens of users, with a hash of the secret and the owner.
CREATE TABLE pass (
  id     TEXT PRIMARY KEY,
  record BLOB NOT NULL
) STRICT;
