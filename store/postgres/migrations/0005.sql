-- Schema version 5: scripts of jobs, each text once under its digest. A job names its script. The column idle is set if
-- no job named the script when scripts were last pruned. A leader of the previous version accepts no scripts, and
-- prunes jobs without emptying the column.
ALTER TABLE synapse.job ADD COLUMN script text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX job_script ON synapse.job (script) WHERE script <> '' AND record IS NOT NULL;
CREATE TABLE synapse.script (
  digest text COLLATE "C" PRIMARY KEY,
  idle   boolean NOT NULL,
  text   bytea NOT NULL
);
CREATE INDEX script_idle ON synapse.script (idle, digest);
