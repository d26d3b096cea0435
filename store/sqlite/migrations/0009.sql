-- Schema version 9: a table for the number of the schema. The pragma user_version now holds the last breaking migration
-- (schema.go).
CREATE TABLE version (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  schema INTEGER NOT NULL
) STRICT;
INSERT INTO version VALUES (1, 9);
