-- How far the audits of schedulers have got, version 8: of each the last line that it told of.
CREATE TABLE head (
  scheduler TEXT PRIMARY KEY,
  line      INTEGER NOT NULL,
  hash      TEXT NOT NULL
) STRICT;
