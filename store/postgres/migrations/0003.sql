-- Schema version 3: finished jobs by owner and by queue. The program fills the column from the records (schema.go).
-- Null means not filled yet. A leader of the previous version continues to write such rows.
ALTER TABLE synapse.job ADD COLUMN queue text COLLATE "C";
CREATE INDEX job_unfilled ON synapse.job (id) WHERE queue IS NULL AND record IS NOT NULL;
CREATE INDEX job_finished_owner ON synapse.job (owner, finished_unix_ms, id) WHERE is_over;
CREATE INDEX job_finished_queue ON synapse.job (queue, finished_unix_ms, id) WHERE is_over;
