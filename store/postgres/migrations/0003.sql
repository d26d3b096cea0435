-- The past by owner and by queue, version 3. What stands in the records is put
-- into the column by the program (schema.go); null is what it has not put yet. A
-- leader of the version before goes on writing rows like that.
ALTER TABLE synapse.job ADD COLUMN queue text COLLATE "C";
CREATE INDEX job_unfilled ON synapse.job (id) WHERE queue IS NULL AND record IS NOT NULL;
CREATE INDEX job_finished_owner ON synapse.job (owner, finished_unix_ms, id) WHERE is_over;
CREATE INDEX job_finished_queue ON synapse.job (queue, finished_unix_ms, id) WHERE is_over;
