-- Schema version 10: a column for the number of the schema. The column version now holds the last breaking migration
-- (schema.go).
ALTER TABLE synapse.version ADD COLUMN schema integer;
