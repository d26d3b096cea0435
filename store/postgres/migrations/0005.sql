-- Scripts that came with jobs, version 5: each text once, under its digest. A job names
-- the one it has; idle is set where none did when scripts were last pruned. A leader of
-- the version before takes none in, and forgets jobs without emptying the column.
ALTER TABLE synapse.job ADD COLUMN script text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX job_script ON synapse.job (script) WHERE script <> '' AND record IS NOT NULL;
CREATE TABLE synapse.script (
  digest text COLLATE "C" PRIMARY KEY,
  idle   boolean NOT NULL,
  text   bytea NOT NULL
);
CREATE INDEX script_idle ON synapse.script (idle, digest);
