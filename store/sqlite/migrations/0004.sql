-- Schema version 4: scripts of jobs, each text once under its digest. A job names its script. The column idle is set if
-- no job named the script when scripts were last pruned.
ALTER TABLE job ADD COLUMN script TEXT NOT NULL DEFAULT '';
CREATE INDEX job_script ON job (script) WHERE script <> '';
CREATE TABLE script (
  digest TEXT PRIMARY KEY,
  idle   INTEGER NOT NULL,
  text   BLOB NOT NULL
) STRICT;
CREATE INDEX script_idle ON script (idle, digest);
