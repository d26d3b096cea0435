-- Schema version 3: finished jobs by owner and by queue. The program fills the column from the records (schema.go).
ALTER TABLE job ADD COLUMN queue TEXT NOT NULL DEFAULT '';
CREATE INDEX job_finished_owner ON job (owner, finished_unix_ms, id) WHERE is_over = 1;
CREATE INDEX job_finished_queue ON job (queue, finished_unix_ms, id) WHERE is_over = 1;
