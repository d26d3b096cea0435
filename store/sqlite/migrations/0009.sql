-- The number of the schema, version 9: user_version has from now on that of the last breaking one
-- (schema.go).
CREATE TABLE version (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  schema INTEGER NOT NULL
) STRICT;
INSERT INTO version VALUES (1, 9);
