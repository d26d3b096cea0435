-- Schema version 8: the last reported line of each scheduler's audit log.
CREATE TABLE head (
  scheduler TEXT PRIMARY KEY,
  line      INTEGER NOT NULL,
  hash      TEXT NOT NULL
) STRICT;
